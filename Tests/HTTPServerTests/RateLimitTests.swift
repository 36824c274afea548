import NIOCore
import Testing

@testable import HTTPServer

/// The limits of the server on what one client may do, with a clock that the test moves.
@Suite struct RateLimitTests {
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
