import ArgumentParser
import Kafka
import Model
import Testing

@testable import Packager

/// Decisions about what is removed and what is left, without servers.
@Suite struct ForgottenOrderTests {
    private static let day: Int64 = 86_400_000

    private func end(_ settings: [String: String]) -> (seconds: Int64?, reason: String) {
        let left = Remainder.topic("t", "records", .success(settings), nowEpochSeconds: 1000)
        return (left.until.map { $0 - 1000 }, left.reason)
    }

    @Test func aTopicThatDeletesEndsAfterItsRetentionAndASegment() {
        let week = self.end(["cleanup.policy": "delete", "retention.ms": "604800000", "segment.ms": "86400000"])
        #expect(week.seconds == Int64(8 * 86_400))
        #expect(week.reason == "retention.ms=604800000, segment.ms=86400000")
        // Without an answer for it Kafka's default counts.
        #expect(self.end(["retention.ms": "1"]).seconds == 604_801)
        #expect(self.end(["retention.ms": "-1", "segment.ms": "1"]).seconds == nil)
        #expect(self.end(["retention.ms": "9223372036854775807"]).seconds == nil)
        #expect(self.end(["segment.ms": "1"]).reason == "retention.ms=?: no limit")
    }

    @Test func aCompactedTopicEndsOnlyWithACompactionLag() {
        var settings = [
            "cleanup.policy": "compact", "retention.ms": "604800000", "segment.ms": "604800000",
            "max.compaction.lag.ms": "9223372036854775807", "delete.retention.ms": "86400000",
        ]
        #expect(self.end(settings).seconds == nil)
        #expect(self.end(settings).reason == "max.compaction.lag.ms is not set: no limit")
        settings["max.compaction.lag.ms"] = "86400000"
        // The segment is rolled with the lag.
        #expect(self.end(settings).seconds == Int64(2 * 86_400))
        #expect(self.end(settings).reason.contains("delete.retention.ms=86400000 later"))
        // A topic that deletes and compacts ends with the first of the two.
        settings["cleanup.policy"] = "compact,delete"
        settings["retention.ms"] = "1000"
        settings["segment.ms"] = "1000"
        #expect(self.end(settings).seconds == 2)
    }

    @Test func settingsThatAreNotKnownGiveNoDate() {
        let left = Remainder.topic(
            "t", "records", .failure(KafkaError(.authorization, "asking")), nowEpochSeconds: 1000)
        #expect(left.until == nil)
        #expect(left.line.hasPrefix("  topic t: records: no date (its settings are not known: "))
        #expect(left.json.object?["until"] == .null)
    }

    @Test func anOrderIsForgottenWhenNothingIsLeftOfIt() {
        #expect(OrderTraces().rest == nil)
        #expect(OrderTraces(state: .removed(isPublished: true)).rest == nil)
        #expect(OrderTraces(state: .removed(isPublished: false)).rest != nil)
        #expect(OrderTraces(state: .stored).rest != nil)
        #expect(OrderTraces(devices: 2).rest == "2 devices are still registered for it")
        #expect(OrderTraces(state: .removed(isPublished: true), earlyChanges: 1).rest != nil)
        #expect(!OrderTraces(state: .damaged("it is a list")).isKnown)
    }

    @Test func aReportSaysWhatIsNotDone() throws {
        let (one, other) = (try OrderKey("order.com.example.shop/1"), try OrderKey("order.com.example.shop/2"))
        let done = ForgottenOrder(
            key: one, found: OrderTraces(state: .stored, devices: 2, earlyChanges: 1), outcome: .removed,
            deadLetters: 3)
        #expect(
            done.line == "order.com.example.shop/1: removed: state and package, 2 devices, 1 early changes, "
                + "3 dead letters (closed)")
        let left = ForgottenOrder(key: other, found: OrderTraces(state: .stored), outcome: .left("it is there"))
        let report = ForgetReport(epochSeconds: 0, by: "anna", orders: [done, left], remains: [])
        #expect(!report.isDone)
        #expect(report.text.contains("order.com.example.shop/2: NOT DONE: it is there"))
        #expect(report.json.object?["orders"]?.array?[1].object?["reason"] == "it is there")
        #expect(ForgetReport(epochSeconds: 0, by: "anna", orders: [done], remains: []).isDone)
    }

    @Test func whatWasLeftOfARemovedOrderIsNamed() throws {
        let found = OrderTraces(state: .removed(isPublished: true))
        var order = ForgottenOrder(key: try OrderKey("order.com.example.shop/1"), found: found, outcome: .unknown)
        order.add(nil, isPlanned: false)
        #expect(order.line == "order.com.example.shop/1: no such order: it was removed before")
        var planned = order
        order.add(.init(registrations: 2, notifications: 1, parcels: 3), isPlanned: false)
        #expect(
            order.line == "order.com.example.shop/1: removed: 2 registrations that only Kafka had, "
                + "1 waiting notifications, 3 entries of parcels")
        #expect(order.json.object?["notifications"] == 1)
        planned.add(.init(registrations: 2), isPlanned: true)
        #expect(
            planned.line == "order.com.example.shop/1: would be removed: 2 registrations that only Kafka had")
    }

    @Test func aFileOfOrdersNamesItsBadLine() throws {
        let text = "order.com.example.shop/1\r\n\n  order.com.example.shop/2\norder.com.example.shop/1"
        let keys = try OrderList.keys(Array(text.utf8), path: "list")
        #expect(OrderList.once(keys).map(\.order.rawValue) == ["1", "2"])
        func failure(_ text: String) -> String {
            do {
                _ = try OrderList.keys(Array(text.utf8), path: "list")
                return "none"
            } catch { return "\(error)" }
        }
        #expect(failure("order.com.example.shop/1\n\nnonsense\n").contains("list: line 3: "))
        let many = String(repeating: "order.com.example.shop/1\n", count: OrderList.limit + 1)
        #expect(failure(many).contains("line \(OrderList.limit + 1): a file has at most \(OrderList.limit) orders"))
    }

    @Test func aRemovalIsAChangeThatPackagersTake() throws {
        let key = try OrderKey("order.com.example.shop/1")
        let message = OrderRemoval.message(of: key, id: "retention-1", at: ChangeLog.noon, Topics())
        let change = try OrderChange.decode(
            key: message.key, value: message.value, headers: message.headers.map { ($0.name, $0.value) })
        #expect(change.kind == .removed)
        #expect(change.id == "retention-1")
        #expect(change.epochMilliseconds == ChangeLog.noon * 1000)
        #expect(message.topic == "waybill.order-changes")
    }
}
