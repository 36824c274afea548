import Model
import NIOCore
import Testing

@testable import Gateway

/// The limits on what one client may do, with a clock that the test moves.
@Suite struct LimitTests {
    static let start = NIODeadline.uptimeNanoseconds(1_000_000_000)

    func at(_ seconds: Int64) -> NIODeadline { Self.start + .seconds(seconds) }

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
        #expect(table.waiting(for: orders[0].orderType) == 9)
        let free = table.enter(orders[0], 7)
        #expect(free)
        #expect(table.waiting(for: orders[0].orderType) == 10)
        #expect(table.pause == .milliseconds(2), "5,000 looks a second")
        #expect(table.waiting(for: try OrderTypeIdentifier("order.com.other")) == 0)
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
}
