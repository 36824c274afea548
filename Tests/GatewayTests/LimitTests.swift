import NIOCore
import Testing

@testable import Gateway

/// The limits on what one client may do, with a clock that the test moves.
@Suite struct LimitTests {
    static let start = NIODeadline.uptimeNanoseconds(1_000_000_000)

    func at(_ seconds: Int64) -> NIODeadline { Self.start + .seconds(seconds) }

    @Test func aRateLimitDebtDecreasesWithTime() {
        var debt = RateLimit()
        #expect(debt.amount(at: .uptimeNanoseconds(0)) == .zero)
        debt.grow(by: .seconds(3), atMost: .seconds(100), at: self.at(0))
        debt.grow(by: .seconds(3), atMost: .seconds(100), at: self.at(1))
        #expect(debt.amount(at: self.at(1)) == .seconds(5))
        #expect(debt.amount(at: self.at(6)) == .zero)
        debt.grow(by: .seconds(200), atMost: .seconds(100), at: self.at(7))
        #expect(debt.amount(at: self.at(7)) == .seconds(100))
    }

    @Test func aFullRateLimitTableEvictsTheSmallestDebt() {
        var table = RateLimitTable<Int>(capacity: 8)
        for client in 0..<8 { table[client].grow(by: .seconds(Int64(10 + client)), atMost: .hours(1), at: self.at(0)) }
        for client in 0..<8 { #expect(table[client].amount(at: self.at(0)) == .seconds(Int64(10 + client))) }
        table[100].grow(by: .seconds(60), atMost: .hours(1), at: self.at(0))
        #expect(table[0] == RateLimit(), "it was out of debt soonest")
        #expect(table[100].amount(at: self.at(0)) == .seconds(60))
        #expect(table[1] != RateLimit())
        for client in 1000..<20_000 { table[client].grow(by: .seconds(1), atMost: .hours(1), at: self.at(1)) }
        #expect(table.capacity == 8)
        #expect(table[7].amount(at: self.at(1)) == .seconds(16), "small fry does not wash out who owes much")
        #expect(RateLimitTable<Int>(capacity: 0).capacity == 8)
        #expect(RateLimitTable<Int>(capacity: 4096).capacity == 4096)
    }

    @Test func backoffStartsAfterTheFreeFailuresAndThenGrows() {
        var backoff = FailureBackoff<String>(
            .init(free: 3, forgiveness: .seconds(10), longest: .seconds(60), clients: 64))
        for _ in 0..<3 { #expect(backoff.failed("a", at: self.at(0)) == nil) }
        #expect(backoff.failed("a", at: self.at(0)) == 20)
        #expect(backoff.failed("a", at: self.at(0)) == 30)
        #expect(backoff.failed("b", at: self.at(0)) == nil, "others have their own")
        #expect(backoff.failed("a", at: self.at(20)) == 20, "who does not wait waits longer")
    }

    @Test func aClientThatWaitedIsRefusedWithoutAnotherWait() throws {
        for extra in 1..<20 {
            var backoff = FailureBackoff<String>(
                .init(free: 3, forgiveness: .seconds(10), longest: .seconds(60), clients: 64))
            var wait: Int64?
            for _ in 0..<(3 + extra) { wait = backoff.failed("a", at: self.at(0)) }
            let told = try #require(wait)
            #expect(told <= 60, "a wait is bounded")
            var early = backoff
            #expect(early.failed("a", at: self.at(told - 11)) != nil)
            #expect(backoff.failed("a", at: self.at(told)) == nil, "\(extra)")
        }
    }

    @Test func failuresOfManyClientsLockNoClientOut() {
        var backoff = FailureBackoff<Int>(.init(free: 3, clients: 64))
        for client in 0..<10_000 { #expect(backoff.failed(client, at: self.at(0)) == nil) }
    }

    @Test func aClientOwesUntilAllItsFailuresAreForgiven() {
        var backoff = FailureBackoff<String>(
            .init(free: 3, forgiveness: .seconds(10), longest: .seconds(60), clients: 64))
        #expect(!backoff.owes("a", at: self.at(0)))
        #expect(!backoff.isExhausted("a", at: self.at(0)))
        for _ in 0..<3 {
            #expect(!backoff.isExhausted("a", at: self.at(0)))
            _ = backoff.failed("a", at: self.at(0))
        }
        #expect(backoff.owes("a", at: self.at(29)))
        #expect(!backoff.owes("a", at: self.at(30)))
        #expect(backoff.isExhausted("a", at: self.at(9)))
        #expect(!backoff.isExhausted("a", at: self.at(10)))
        #expect(!backoff.owes("b", at: self.at(0)))
        #expect(backoff.longestDebt == .seconds(90))
    }

    @Test func refusalsAreDelayedToMultiplesOfTenMilliseconds() {
        func moment(_ microseconds: Int64) -> NIODeadline {
            Endpoints.refusalMoment(since: self.at(0), now: self.at(0) + .microseconds(microseconds))
        }
        for taken: Int64 in [0, 80, 300, 2500, 9999] { #expect(moment(taken) == self.at(0) + .milliseconds(10)) }
        #expect(moment(10_000) == self.at(0) + .milliseconds(20))
        #expect(moment(57_000) == self.at(0) + .milliseconds(60))
    }

    @Test func heldRequestsAreLimitedPerOrderPerClientAndInTotal() throws {
        var table = HoldTable<Int>(.init(requests: 10, perOrder: 2, perClient: 3))
        let orders = try (0..<20).map { try GatewayFixture.key("\($0)") }
        let ofOrder = (0..<1000).map { table.enter(orders[0], $0) }
        #expect(ofOrder.count { $0 } == 2, "an order has two places, whoever asks")
        let ofClient = (1..<20).map { table.enter(orders[$0], -1) }
        #expect(ofClient.count { $0 } == 3, "a client has three")
        table.leave(orders[1], -1)
        let again = [10, 11].map { table.enter(orders[$0], -1) }
        #expect(again == [true, false])
        let others = (11..<20).map { table.enter(orders[$0], 1000 + $0) }
        #expect(others.count { $0 } == 5, "ten in all")
        table.leave(orders[0], 0)
        let free = table.enter(orders[0], 7)
        #expect(free)
    }

    @Test func theMessageLimitOfAnAddressRefillsWithTime() {
        var allowance = DeviceLogLimit<String>(
            .init(burst: 5, interval: .seconds(2), totalBurst: 100, totalInterval: .milliseconds(1), clients: 64))
        #expect(allowance.admit(0, from: "a", at: self.at(0)) == 0)
        #expect(allowance.admit(3, from: "a", at: self.at(0)) == 3)
        #expect(allowance.admit(3, from: "a", at: self.at(0)) == 2)
        #expect(allowance.admit(1, from: "a", at: self.at(1)) == 0)
        #expect(allowance.admit(5, from: "a", at: self.at(2)) == 1)
        #expect(allowance.admit(5, from: "b", at: self.at(2)) == 5)
        #expect(allowance.admit(.max, from: "a", at: self.at(1000)) == 5, "no more than a burst is saved up")
    }

    @Test func messagesOfAllAddressesAreBoundedToo() {
        var allowance = DeviceLogLimit<Int>(
            .init(burst: 5, interval: .seconds(2), totalBurst: 12, totalInterval: .seconds(1), clients: 64))
        let admitted = (0..<1000).map { allowance.admit(5, from: $0, at: self.at(0)) }
        #expect(admitted.prefix(4) == [5, 5, 2, 0])
        #expect(admitted.reduce(0, +) == 12)
        #expect(allowance.admit(5, from: -1, at: self.at(3)) == 3)
    }

    @Test func repeatedFailuresAreSummarizedOncePerInterval() {
        var log = FailureLogThrottle(length: .seconds(10))
        #expect(log.failed("package", "first", at: self.at(0)) == .write)
        #expect(log.failed("package", "a", at: self.at(1)) == .summarise(at: self.at(10)))
        for second in 2..<10 { #expect(log.failed("package", "b\(second)", at: self.at(Int64(second))) == .count) }
        #expect(log.failed("changes", "other", at: self.at(5)) == .write, "each kind has its own")
        #expect(log.failed("package", "late", at: self.at(11)) == .count, "the summary is on its way")
        #expect(log.summary(of: "package", at: self.at(11)) == .init(count: 10, reason: "late"))
        #expect(log.summary(of: "package", at: self.at(11)) == nil)
        #expect(log.failed("package", "c", at: self.at(12)) == .summarise(at: self.at(21)), "the summary was a line")
        #expect(log.summary(of: "package", at: self.at(21)) == .init(count: 1, reason: "c"))
        #expect(log.failed("package", "d", at: self.at(31)) == .write)
        #expect(log.summary(of: "nothing", at: self.at(31)) == nil)
    }
}
