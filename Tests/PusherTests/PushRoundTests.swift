import APNS
import Model
import Testing

@testable import Pusher

@Suite struct PushRoundTests {
    private func round(_ count: Int) throws -> PushRound {
        PushRound(
            try (0..<count).map {
                FanOut.Target(
                    orderType: try OrderTypeIdentifier("order.com.example.shop"),
                    pushToken: try PushToken(String(repeating: "a\($0)", count: 32)))
            })
    }

    private static let delivered = PushOutcome.answered(PushAnswer(status: 200))
    private static let busy = PushOutcome.answered(PushAnswer(status: 503, reason: "ServiceUnavailable"))
    private static let expired = PushOutcome.answered(PushAnswer(status: 403, reason: "BadCertificate"))
    private static func unanswered(_ code: APNSError.Code) -> PushOutcome { .unanswered(APNSError(code, "gone")) }

    @Test func onlyWhatIsToBeRepeatedStaysOpen() throws {
        var round = try self.round(4)
        let all = round.open
        let gone = PushOutcome.answered(PushAnswer(status: 410, reason: "Unregistered", timestampMilliseconds: 5))
        let steps = round.take([Self.delivered, Self.busy, gone, Self.unanswered(.timeout)], isLast: false)
        #expect(steps.map(\.step) == [.delivered, .again, .retire(registeredBefore: 5), .again])
        #expect(round.open == [all[1], all[3]])
        #expect(round.attempts == 1)
    }

    @Test func whatApnsAnswersToTheLastIsGivenUp() throws {
        var round = try self.round(2)
        let steps = round.take([Self.busy, Self.busy], isLast: true)
        #expect(steps.map(\.step) == [.dropped, .dropped])
        #expect(round.dropped == ["503 ServiceUnavailable": 2])
        #expect(round.awayReason == nil)
        #expect(round.open.isEmpty)
    }

    @Test(arguments: [
        APNSError.Code.connecting, .connectionLost, .tls, .queueFull, .closed, .timeout, .protocolViolation,
    ])
    func whatNobodyAnswersIsNotGivenUp(_ code: APNSError.Code) throws {
        var round = try self.round(2)
        let steps = round.take([Self.unanswered(code), Self.unanswered(code)], isLast: true)
        #expect(steps.map(\.step) == [.away, .away])
        #expect(round.awayReason == "gone")
        #expect(round.dropped.isEmpty)
    }

    @Test func silenceAboutOneNotificationStopsNobodyForEver() throws {
        var round = try self.round(2)
        _ = round.take([Self.delivered, Self.unanswered(.timeout)], isLast: false)
        let steps = round.take([Self.unanswered(.timeout)], isLast: true)
        #expect(steps.map(\.step) == [.dropped])
        #expect(round.awayReason == nil)
    }

    @Test func anApnsThatAnswersOnlyFewIsAway() throws {
        var round = try self.round(4)
        let timeout = Self.unanswered(.timeout)
        _ = round.take([Self.delivered, timeout, timeout, timeout], isLast: false)
        #expect(round.take([timeout, timeout, timeout], isLast: true).map(\.step) == [.away, .away, .away])
        #expect(round.dropped.isEmpty)
    }

    @Test func aRefusedCredentialStopsTheRest() throws {
        var round = try self.round(2)
        let steps = round.take([Self.expired, Self.busy], isLast: false)
        #expect(steps.map(\.step) == [.dropped, .again])
        #expect(round.stopReason == "403 BadCertificate")
    }

    @Test func aRefusalThatDeliveriesContradictStopsNobody() throws {
        var round = try self.round(2)
        _ = round.take([Self.delivered, Self.expired], isLast: false)
        #expect(round.stopReason == nil)
        #expect(round.dropped == ["403 BadCertificate": 1])
    }

    @Test func anUnknownTokenIsDroppedAndRetiresNothing() throws {
        var round = try self.round(1)
        let bad = PushOutcome.answered(PushAnswer(status: 400, reason: "BadDeviceToken"))
        #expect(round.take([bad], isLast: false).map(\.step) == [.dropped])
    }
}
