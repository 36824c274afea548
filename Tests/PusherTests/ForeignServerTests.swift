import APNS
import Kafka
import Model
import Operations
import TestKit
import TestTraits
import Testing

@testable import Pusher

/// Another server in APNs' place: a proxy's page, a wrong address, a middlebox, or nothing at all.
@Suite(.server, .timeLimit(.minutes(3))) struct ForeignServerTests {
    private static let answers: [APNSSimulatorAnswer] =
        [301, 400, 403, 404, 405, 410, 421].map { .foreign($0) } + [.foreign(404, bytes: 200_000), cut]
    /// JSON that ends in the middle of a reason.
    private static var cut: APNSSimulatorAnswer {
        var answer = APNSSimulatorAnswer.foreign(410)
        answer.form = .broken
        return answer
    }

    /// Waits until `/readyz` has a remark on APNs that contains a text.
    private func remarked(_ text: String, _ readiness: Readiness, within patience: Duration) async throws {
        try await eventually("/readyz says: \(text)", within: patience) {
            readiness.remarks.contains { $0.hasPrefix("apns: ") && $0.contains(text) }
        }
    }

    @Test func answersThatAreNotOfAPNsCostNoNotification() async throws {
        let devices = Self.answers.count * 8
        try await PusherFixture.run { fixture in
            let directory = try TemporaryDirectory("pusher-foreign")
            let readiness = Readiness(conditions: [])
            for device in 0..<devices { try await fixture.register("d\(device)", for: "o\(device)", token: device) }
            for device in 0..<devices {
                let answer = Self.answers[device % Self.answers.count]
                try await fixture.hit(tokens: device..<device + 1, .answer(answer, delayMilliseconds: 0))
            }
            try await fixture.serve(directory, readiness: readiness) {
                try await fixture.publish((0..<devices).map { "o\($0)" })
                try await remarked("not an answer of APNs", readiness, within: .seconds(30))
                #expect(fixture.count("waybill_apns_requests_total", "status=\"404\",reason=\"not-apns\"") > 0)
                #expect(try await fixture.delivered().isEmpty)

                try await fixture.apns.clearFaults()
                try await eventually("all are notified") { Set(try await fixture.delivered()).count == devices }
                try await eventually("the remark is gone") { readiness.remarks.isEmpty }
                try await eventually("committed") { try await fixture.lag() == 0 }
            }
            #expect(fixture.pushes("dropped") == 0)
            #expect(fixture.retired == 0)
            #expect(try await fixture.admin.endOffsets(fixture.topics.deadLetters).values.reduce(0, +) == 0)
            for device in 0..<devices {
                let keys = try await fixture.registrations.devices(of: [PusherFixture.order("o\(device)")])
                #expect(keys[0].count == 1, "o\(device)")
            }
        }
    }

    enum Absence: CaseIterable { case refusing, silent }

    @Test(arguments: Absence.allCases)
    func anAPNsThatCannotBeReachedIsReportedWithinSeconds(_ absence: Absence) async throws {
        try await PusherFixture.run { fixture in
            let directory = try TemporaryDirectory("pusher-unreachable")
            let readiness = Readiness(conditions: [WorkerCondition.joined])
            try await fixture.register("d", for: "o", token: 1)
            let silence = APNSSimulatorFault.Effect.connect(.slowHandshake(milliseconds: 60_000))
            try await fixture.apns.add(APNSSimulatorFault(absence == .silent ? silence : .closeListener))
            try await fixture.serve(directory, readiness: readiness) {
                try await eventually("joined") { readiness.reasons.isEmpty }
                try await fixture.publish(["o"])
                try await eventually("taken") { fixture.gauge("waybill_records_in_hand") == 1 }
                try await remarked("", readiness, within: .seconds(5))
                try await eventually("a gauge says it", within: .seconds(5)) {
                    fixture.metrics.text.split(separator: "\n").contains {
                        $0.hasPrefix("waybill_push_credential_state{") && $0.hasSuffix(" 1.0")
                    }
                }

                try await fixture.apns.clearFaults()
                try await eventually("notified") { try await fixture.delivered().count == 1 }
                try await eventually("the remark is gone") { readiness.remarks.isEmpty }
            }
        }
    }
}
