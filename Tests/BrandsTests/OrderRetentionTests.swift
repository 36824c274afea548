import Model
import Testing

@testable import Brands

@Suite struct OrderRetentionTests {
    private static let day: Int64 = 86_400
    /// Status, days and seconds since the last version, verdict.
    private static let cases: [(status: String, days: Int64, seconds: Int64, isOver: Bool)] = [
        ("completed", 90, 1, true), ("cancelled", 90, 1, true), ("open", 400, 0, false),
        ("completed", 90, 0, false), ("cancelled", 0, 0, false), ("completed", -1, 0, false),
    ]

    @Test(arguments: Self.cases)
    func onlyOrdersThatEndedLongerAgoAreOver(
        _ example: (status: String, days: Int64, seconds: Int64, isOver: Bool)
    ) throws {
        let now: Int64 = 1_767_268_800
        let age = example.days * Self.day + example.seconds
        var state = OrderState(
            key: try OrderKey("order.com.example.shop/1"),
            document: OrderDocument(members: ["status": .string(example.status)]),
            token: try AuthenticationToken("a-token-of-sixteen"), version: 1, modifiedEpochSeconds: now - age)
        let retention = OrderRetention(endedDays: 90)
        #expect(retention.isOver(state, nowEpochSeconds: now) == example.isOver)
        state.isRemoved = true
        #expect(!retention.isOver(state, nowEpochSeconds: now))
    }
}
