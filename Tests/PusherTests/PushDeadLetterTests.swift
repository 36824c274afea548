import APNS
import Foundation
import Kafka
import Model
import Operations
import TestKit
import Testing

@testable import Pusher

@Suite struct PushDeadLetterTests {
    private static let answer = PushOutcome.answered(
        PushAnswer(
            status: 429, reason: "TooManyRequests", timestampMilliseconds: nil,
            apnsID: "eabeae54-14a8-11e5-b60b-1697f925ec7b", retryAfterSeconds: 5))
    private static let silence = PushOutcome.unanswered(APNSError(.silent, "waiting for an answer"))

    private static func history(_ outcomes: [PushOutcome]) -> PushHistory {
        var history = PushHistory()
        for (index, outcome) in outcomes.enumerated() { history.append(outcome, epochMilliseconds: Int64(index)) }
        return history
    }

    private static func deadLetter(
        _ code: PushDeadLetterCode = .undeliverable, _ cause: String = "429 TooManyRequests",
        history: PushHistory = PushHistory()
    ) throws -> PushDeadLetter {
        PushDeadLetter(
            code, cause, registration: try RegistrationKey("a/secret/order.com.example/7"),
            origin: KafkaPosition(topic: "waybill.orders", partition: 3, offset: 17), records: 2, history: history)
    }

    private static func schema(_ name: String) throws -> JSON {
        return try JSON(
            parsing: Array(
                Data(contentsOf: Repository.root.appending(path: "Shared/Model/Schemas/\(name).schema.json"))))
    }

    @Test func aHistoryKeepsTheFirstAndTheLastAttempts() {
        for count in [0, 1, 3, 4, 5, 11, 12, 13, 14, 100, 10_000] {
            let history = Self.history(Array(repeating: Self.silence, count: count))
            let kept = (history.first + history.last).map(\.epochMilliseconds)
            #expect(history.count == count)
            #expect(kept.count == min(count, 12))
            #expect(history.omitted == max(0, count - 12))
            let expected = count <= 12 ? Array(0..<count) : Array(0..<4) + Array((count - 8)..<count)
            #expect(kept == expected.map(Int64.init))
            #expect(history.newest?.epochMilliseconds == (count == 0 ? nil : Int64(count - 1)))
        }
    }

    @Test func anAttemptReportsItsTimeAndAnswerOrError() {
        let attempts = Self.history([Self.answer, Self.silence]).first
        #expect(attempts.map(\.text) == ["429 TooManyRequests", "silent"])
        #expect(
            attempts.map(\.json) == [
                [
                    "at": 0, "status": 429, "reason": "TooManyRequests",
                    "apnsId": "eabeae54-14a8-11e5-b60b-1697f925ec7b",
                ],
                ["at": 1, "error": "silent"],
            ])
    }

    @Test func malformedReasonsAndAPNsIDsAreLeftOut() {
        let token = String(repeating: "0123456789abcdef", count: 4)
        let history = Self.history([
            .answered(PushAnswer(status: 400, reason: token, apnsID: token)),
            .answered(PushAnswer(status: 400, reason: nil, apnsID: "x\n")),
        ])
        #expect(history.first.map(\.text) == ["400 with an unreadable reason", "400"])
        #expect(history.first.allSatisfy { $0.apnsID == nil })
    }

    @Test func aDeadLetterHasTheOrderKeyAndTheAttemptHistory() throws {
        let message = try Self.deadLetter(history: Self.history([Self.answer, Self.silence])).message(Topics())
        #expect(message.topic == "waybill.dead-letters")
        #expect(message.partition == nil)
        #expect(message.key == Array("order.com.example/7".utf8))
        let headers = Dictionary(
            uniqueKeysWithValues: message.headers.map { ($0.name, String(decoding: $0.value ?? [], as: UTF8.self)) })
        #expect(headers["waybill-error"] == "push-undeliverable")
        #expect(headers["waybill-origin"] == "waybill.orders/3/17")
        #expect(headers["content-type"] == "application/json")
        let value = try JSON(parsing: try #require(message.value))
        #expect(
            value == [
                "device": "a/secret", "orderType": "order.com.example", "records": 2, "attempts": 2, "omitted": 0,
                "history": [
                    [
                        "at": 0, "status": 429, "reason": "TooManyRequests",
                        "apnsId": "eabeae54-14a8-11e5-b60b-1697f925ec7b",
                    ],
                    ["at": 1, "error": "silent"],
                ],
            ])
    }

    /// A refused change that says it were a notification has the device that its sender chose.
    @Test func aRefusedChangeIsNoNotification() throws {
        let letter = try Self.deadLetter().message(Topics())
        func found(_ headers: [KafkaHeader]) throws -> (count: Int, key: PendingPushKey?) {
            let reading = DeadLetterRecord.read(
                KafkaRecord(
                    topic: letter.topic, partition: 0, offset: 0, timestampMilliseconds: 1, key: letter.key,
                    value: letter.value, headers: headers))
            var index = DeadLetterIndex(DeadLetterFilter(isPush: true))
            index.add(reading)
            guard case .letter(let letter) = reading else { return (index.entries.count, nil) }
            return (index.entries.count, PushDeadLetterSurvey.key(of: letter))
        }
        let own = try found(letter.headers)
        #expect(own.count == 1)
        #expect(own.key == PendingPushKey(try RegistrationKey("a/secret/order.com.example/7")))
        let change = [KafkaHeader(.error, text: "invalid-event"), KafkaHeader(.origin, text: "waybill.orders/3/17")]
        let forged = try found(letter.headers + change)
        #expect(forged.count == 0)
        #expect(forged.key == nil)
    }

    @Test func aDeadLetterHasItsTrace() throws {
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000001-01"
        let message = try PushDeadLetter(
            .refused, "400", registration: RegistrationKey("a/secret/order.com.example/7"),
            origin: KafkaPosition(topic: "waybill.orders", partition: 3, offset: 17),
            trace: TraceContext(traceparent: parent, tracestate: "a=1")
        ).message(Topics())
        #expect(message.headers.suffix(2).map(\.name) == ["traceparent", "tracestate"])
        #expect(message.headers.suffix(2).map(\.value) == [Array(parent.utf8), Array("a=1".utf8)])
        #expect(try !Self.deadLetter().message(Topics()).headers.contains { $0.name == "traceparent" })

    }

    @Test func aParkedPushHasTheTracesOfAllItsChanges() throws {
        let parents = [1, 2, 3].map { "00-4bf92f3577b34da6a3ce929d0e0e4736-000000000000000\($0)-01" }
        let headers = [[("traceparent", parents[0])], [("traceparent", parents[2]), ("waybill-links", parents[1])]]
        let records = headers.enumerated().map { index, headers in
            KafkaRecord(
                topic: "waybill.orders", partition: 0, offset: Int64(index), timestampMilliseconds: 1,
                key: Array("order.com.example/7".utf8), value: [],
                headers: headers.map { KafkaHeader(name: $0.0, text: $0.1) })
        }
        var batch = PushBatch(records, topics: Topics())
        let traces = batch.traces.mapValues { $0.map(\.traceparent) }
        #expect(traces == [0: [parents[0]], 1: [parents[2], parents[1]]])
        let parked = batch.setAside { _ in true }.map(\.push)
        #expect(parked.map { $0.traces.map(\.traceparent) } == [parents.reversed()])
        let pending = parked[0].message("pending", nowEpochMilliseconds: 1)
        let read = KafkaRecord(
            topic: "pending", partition: 0, offset: 0, timestampMilliseconds: 1, key: pending.key,
            value: pending.value, headers: pending.headers)
        guard case .waits(let push) = PendingReading(read) else {
            Issue.record("the pending record is not read")
            return
        }
        #expect(push.traces.map(\.traceparent) == parents.reversed())
        #expect(PushBatch([push]).traces == [0: push.traces])
        var first = ParkedPush(key: push.key, receipts: [], epochMilliseconds: 1)
        first.merge(push)
        first.merge(first)
        #expect(first.traces == push.traces)
    }

    @Test func everyDeadLetterReasonIncludesAdviceAndOmitsTheDevice() throws {
        for code in PushDeadLetterCode.allCases {
            for reason in PushReason.allCases {
                for status in reason.statuses {
                    let sentence = try Self.deadLetter(code, "\(status) \(reason.rawValue)").reason
                    #expect(sentence.hasSuffix("\(status) \(reason.rawValue); \(reason.advice)"))
                    #expect(!sentence.contains("secret"))
                }
                let contradiction = try Self.deadLetter(code, "418 \(reason.rawValue)").reason
                #expect(
                    contradiction.hasSuffix(
                        "; APNs gives this reason with \(reason.status): see what answers in APNs' place"))
            }
            // A transport's error may be long; the schema allows 4,096.
            let long = try Self.deadLetter(code, String(repeating: "ä", count: 100_000)).reason
            #expect(long.utf8.count < 4096)
            #expect(!long.contains(";") == (code != .tokenUnknown))
        }
    }

    private static func members(_ json: JSON?, _ path: String...) -> JSONObject {
        path.reduce(json?.object) { $0?[$1]?.object } ?? JSONObject()
    }

    @Test func theSchemaMatchesTheMembersOfADeadLetter() throws {
        let schema = try Self.schema("push-dead-letter")
        let value = try JSON(
            parsing: try #require(try Self.deadLetter(history: Self.history([Self.answer])).message(Topics()).value))
        let names = Self.members(value).members.map(\.name)
        // A record that pushers ended with has no device.
        let required = Self.members(schema)["required"]?.array?.compactMap(\.string) ?? []
        #expect(Set(names) == Set(required + ["device"]))
        #expect(names == Self.members(schema, "properties").members.map(\.name))
        let history = Self.members(schema, "properties", "history")
        #expect(history["maxItems"] == .integer(Int64(PushHistory.firstLimit + PushHistory.lastLimit)))
        let attempt = Self.members(history["items"], "properties")
        #expect(attempt.members.map(\.name) == ["apnsId", "at", "error", "reason", "status"])
        let codes = Self.members(attempt["error"])["enum"]?.array?.compactMap(\.string) ?? []
        #expect(Set(codes) == Set(APNSError.Code.allCases.map(\.rawValue)))
    }
}
