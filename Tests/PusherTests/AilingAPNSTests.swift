import APNS
import Kafka
import Model
import TestKit
import TestTraits
import Testing

@testable import Pusher

/// An APNs that is available but does not answer many requests with 200.
@Suite(.server, .timeLimit(.minutes(3))) struct AilingAPNSTests {
    enum Credential: CaseIterable { case certificate, token }

    /// Adds faults by share for all devices, and a provider token that is sometimes refused for two in a hundred, three
    /// times at most: without that bound, one run in ten has a device that is unlucky for longer than the test waits.
    private func ail(_ fixture: PusherFixture, devices: Int) async throws {
        for (status, reason) in [
            (429, "TooManyRequests"), (500, "InternalServerError"), (503, "ServiceUnavailable"),
        ] {
            try await fixture.apns.add(
                APNSSimulatorFault(.answer(.init(status, reason), delayMilliseconds: 0), probability: 0.05))
        }
        for device in stride(from: 0, to: devices, by: 50) {
            try await fixture.apns.add(
                APNSSimulatorFault(
                    .answer(.init(403, "ExpiredProviderToken"), delayMilliseconds: 0),
                    token: PusherFixture.token(device), count: 3, probability: 0.4))
        }
    }

    @Test(arguments: Credential.allCases)
    func everyDeviceIsNotifiedDespiteIntermittentAPNsFailures(_ credential: Credential) async throws {
        let devices = 300
        try await PusherFixture.run { fixture in
            for device in 0..<devices { try await fixture.register("d\(device)", for: "o\(device)", token: device) }
            try await self.ail(fixture, devices: devices)
            try await PushTable.run(fixture, client: .production(credential)) { table in
                for round in 0..<6 {
                    let records = try (0..<devices).map { device in
                        try fixture.changed("o\(device)", offset: Int64(round * devices + device))
                    }
                    for start in stride(from: 0, to: devices, by: 30) {
                        try await table.put(Array(records[start..<start + 30]))
                        try await Task.sleep(for: .milliseconds(100))
                    }
                }
                // A device with bad luck is retried after 1, 2, 4, 8 and 16 seconds, and one run in a thousand has one
                // that fails again.
                try await eventually("all are notified", within: .seconds(60)) { table.doneCount == 6 * devices }
            }
            #expect(fixture.pushes("dropped") == 0)
            let connections = try await fixture.apns.statistics().openedConnections
            #expect(connections < 8, "a connection that serves the others is not given up for one device")
        }
    }

    @Test func aBrownOutDropsNoNotificationAndEndsWithAHealthyCredential() async throws {
        let devices = 200
        try await PusherFixture.run { fixture in
            for device in 0..<devices { try await fixture.register("d\(device)", for: "o\(device)", token: device) }
            let away = APNSSimulatorAnswer(503, "ServiceUnavailable")
            try await fixture.apns.add(APNSSimulatorFault(.answer(away, delayMilliseconds: 0), probability: 0.8))
            try await PushTable.run(
                fixture,
                limits: {
                    $0.attempts = 1
                    $0.hold = .seconds(1)
                }, client: .production(.certificate)
            ) { table in
                for round in 0..<10 {
                    let records = try (0..<devices).map { device in
                        try fixture.changed("o\(device)", offset: Int64(round * devices + device))
                    }
                    try await table.put(records)
                    try await Task.sleep(for: .milliseconds(500))
                }
                try await fixture.apns.clearFaults()
                try await eventually("all are notified", within: .seconds(30)) { table.doneCount == 10 * devices }
                #expect(table.scheduler.credentialStates.map(\.health) == [.healthy])
            }
            #expect(fixture.pushes("dropped") == 0)
        }
    }

    /// With production timing, a refused certificate gets a new connection, for eight requests, at growing intervals:
    /// requests that waited for one would hold their offsets back for a minute.
    @Test func aStoppedCredentialLeavesNoRequestsInFlight() async throws {
        let devices = 200
        try await PusherFixture.run { fixture in
            for device in 0..<devices { try await fixture.register("d\(device)", for: "o\(device)", token: device) }
            let refused = APNSSimulatorAnswer(403, "BadCertificate")
            try await fixture.apns.add(APNSSimulatorFault(.answer(refused, delayMilliseconds: 0)))
            try await PushTable.run(fixture, client: .production(.certificate)) { table in
                try await table.put(
                    try (0..<devices).map { try fixture.changed("o\($0)", offset: Int64($0)) })
                try await eventually("the credential is stopped") {
                    table.scheduler.credentialStates.contains { $0.health.gauge == 2 }
                }
                try await eventually("nothing is with the client", within: .seconds(20)) {
                    table.scheduler.gauges.inFlight == 0
                }
                #expect(try await fixture.notified().count < devices / 2, "the others were not sent to be refused")
                #expect(table.doneCount == 0)
            }
        }
    }

    /// A middlebox that answers in APNs' place must not retire a fleet; one device whose token expired is retired.
    @Test func aHundredTokensThatExpiredWith400OpenTheBreaker() async throws {
        try await PusherFixture.run { fixture in
            for device in 0..<100 { try await fixture.register("d\(device)", for: "o", token: device + 1) }
            let expired = APNSSimulatorAnswer(400, "ExpiredToken")
            try await PushTable.run(fixture) { table in
                try await table.process([try fixture.changed("o", offset: 0)])
                try await eventually("all are notified") { fixture.pushes("delivered") == 100 }
                try await fixture.apns.add(
                    APNSSimulatorFault(
                        .answer(expired, delayMilliseconds: 0), token: PusherFixture.token(1), count: 1))
                try await table.process([try fixture.changed("o", offset: 1)])
                try await eventually("one is retired") { fixture.retired == 1 }
                try await eventually("the others are notified") { fixture.pushes("delivered") == 199 }
                try await fixture.apns.add(APNSSimulatorFault(.answer(expired, delayMilliseconds: 0), count: 99))
                try await table.process([try fixture.changed("o", offset: 2)])
                #expect(table.scheduler.credentialStates.map(\.breaker.gauge) == [1])
                #expect(table.scheduler.credentialStates.map(\.health) == [.healthy])
                #expect(fixture.retired <= TokenBreaker.inARow)
                try await table.process([try fixture.changed("o", offset: 3)])
                try await eventually("all that stayed are notified") {
                    fixture.pushes("delivered") == 199 + 100 - fixture.retired
                }
            }
            let letters = try await fixture.deadLetters(100 - Int(fixture.retired))
            #expect(letters.count == 100 - Int(fixture.retired))
            #expect(Set(letters.map(\.code)) == ["push-token-unknown"])
        }
    }

    @Test func aDeviceThatRegisteredAfterThePushStaysThoughItsTokenExpiredWith400() async throws {
        try await PusherFixture.run { fixture in
            let registration = try await fixture.register("d1", for: "o", token: 1, at: PusherFixture.noon * 1000 + 1)
            try await fixture.register("d2", for: "o", token: 2)
            try await PushTable.run(fixture) { table in
                try await table.process([try fixture.changed("o", offset: 0)])
                let expired = APNSSimulatorAnswer(400, "ExpiredToken")
                try await fixture.apns.add(
                    APNSSimulatorFault(
                        .answer(expired, delayMilliseconds: 0), token: PusherFixture.token(1), count: 1))
                try await table.process([try fixture.changed("o", offset: 1)])
            }
            #expect(try await fixture.isRegistered(registration.key))
            #expect(fixture.retired == 0)
            #expect(fixture.pushes("delivered") == 4, "it is notified again")
        }
    }

    @Test func fortyUnknownTokensLeaveTheCredentialHealthy() async throws {
        try await PusherFixture.run { fixture in
            for device in 0..<40 { try await fixture.register("bad\(device)", for: "flood", token: 1000 + device) }
            for device in 0..<20 { try await fixture.register("d\(device)", for: "o\(device)", token: device) }
            for device in 0..<40 {
                let answer = APNSSimulatorAnswer(400, "BadDeviceToken")
                try await fixture.apns.add(
                    APNSSimulatorFault(
                        .answer(answer, delayMilliseconds: 0), token: PusherFixture.token(1000 + device)))
            }
            try await PushTable.run(fixture) { table in
                try await table.process([try fixture.changed("flood", offset: 0)])
                let others = try (0..<20).map { try fixture.changed("o\($0)", offset: Int64($0 + 1)) }
                try await table.process(others)
                #expect(table.scheduler.credentialStates.map(\.health) == [.healthy])
            }
            #expect(fixture.pushes("delivered") == 20)
        }
    }
}
