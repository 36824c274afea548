import NIOCore
import Testing

@testable import APNS
@testable import HTTP2

private func at(_ seconds: Int64) -> NIODeadline { .uptimeNanoseconds(0) + .seconds(1_000 + seconds) }

@Suite struct ConnectionStateMachineTests {
    private func machine(isProven: Bool = true) -> ConnectionStateMachine {
        var machine = ConnectionStateMachine(isProven: isProven, configuration: APNSConfiguration(), now: at(0))
        machine.handshakeCompleted(now: at(0))
        return machine
    }

    private func end(status: Int? = nil, isComplete: Bool = false, code: HTTP2ErrorCode = .noError) -> HTTP2StreamEnd {
        HTTP2StreamEnd(
            stream: 1, tag: 0, errorCode: code, status: status, headers: [], body: [], isComplete: isComplete)
    }

    @Test func onlyOneStreamStartsBetweenHandshakeAndSettings() {
        var machine = ConnectionStateMachine(isProven: true, configuration: APNSConfiguration(), now: at(0))
        #expect(machine.freeStreams == 0)
        machine.handshakeCompleted(now: at(0))
        #expect(machine.freeStreams == 1)
        machine.started(stream: 1, now: at(0))
        #expect(machine.freeStreams == 0)
        machine.settings(maxConcurrentStreams: 100)
        #expect(machine.freeStreams == 7)
    }

    @Test func eachGoodAnswerDoublesTheStreamsOfANewConnection() {
        var machine = self.machine()
        machine.settings(maxConcurrentStreams: .max)
        var limits = [machine.freeStreams]
        for status in [200, 503, 400, 403, 410, 200, 200, 200, 200, 200] {
            machine.started(stream: 1, now: at(0))
            _ = machine.ended(self.end(status: status, isComplete: true), now: at(0))
            limits.append(machine.freeStreams)
        }
        #expect(limits == [8, 16, 16, 32, 32, 64, 128, 256, 512, 1000, 1000])
    }

    @Test func failuresOfAllKindsRaiseTheShareAndGoodAnswersLowerIt() {
        var machine = self.machine()
        func take(_ end: HTTP2StreamEnd) { _ = machine.ended(end, now: at(1)) }
        let failures =
            [500, 502, 503, 403].map { self.end(status: $0, isComplete: true) } + [self.end(code: .protocolError)]
        for failure in failures {
            let before = machine.failureShare
            take(failure)
            #expect(machine.failureShare > before)
        }
        machine.timedOut(now: at(1))
        machine.throttled(isOneDevice: false, now: at(1))
        #expect(machine.failureShare >= ConnectionLoad.illShare)
        #expect(machine.failingSince == at(1))
        let most = machine.failureShare
        take(self.end(code: .refusedStream))
        take(self.end(status: 429, isComplete: true))
        machine.endedUnanswered()
        #expect(machine.failureShare == most)
        machine.throttled(isOneDevice: true, now: at(2))
        #expect(machine.failureShare < most)
        #expect(machine.lastGoodAnswer == at(2))
        for _ in 0..<300 { take(self.end(status: 200, isComplete: true)) }
        #expect(machine.failureShare == 0)
        for _ in 0..<300 { take(self.end(status: 503, isComplete: true)) }
        #expect(machine.failureShare == 1024)
    }

    @Test func aCancelledRequestIsNoFailureOfThePeer() {
        var machine = self.machine()
        machine.settings(maxConcurrentStreams: 100)
        for _ in 0..<5 { machine.started(stream: 1, now: at(0)) }
        machine.endedUnanswered()
        #expect(machine.openStreams == 4)
        #expect(machine.freeStreams == 4)
        #expect(machine.failureShare == 0)
    }

    @Test func anIdleConnectionIsPingedWithItsNextRequest() {
        var machine = self.machine()
        machine.settings(maxConcurrentStreams: 100)
        #expect(machine.started(stream: 1, now: at(59)) == false)
        _ = machine.ended(self.end(status: 200, isComplete: true), now: at(60))
        machine.received(now: at(60))
        #expect(machine.started(stream: 3, now: at(120)) == true, "idle for a minute")
        #expect(machine.freeStreams == 0)
        #expect(machine.isAsking)
        #expect(machine.tick(now: at(121)) == .nothing)
        var answered = machine
        answered.received(now: at(121))
        #expect(answered.freeStreams > 0)
        #expect(answered.tick(now: at(123)) == .nothing)
        #expect(machine.tick(now: at(122)) == .close(APNSError(.connectionLost, "")))
        #expect(machine.retirement == .silence)
    }

    @Test func anIdleSiblingOfASilentConnectionIsPinged() {
        var machine = self.machine()
        #expect(machine.doubted(now: at(5)) == true)
        #expect(machine.doubted(now: at(5)) == false)
        #expect(machine.tick(now: at(6)) == .nothing)
        #expect(machine.tick(now: at(7)) == .close(APNSError(.connectionLost, "")))
        var busy = self.machine()
        busy.started(stream: 1, now: at(5))
        #expect(busy.doubted(now: at(5)) == false, "it is asked by its own clock")
    }

    @Test func theLimitFollowsSettingsEvenBelowTheOpenStreams() {
        var machine = self.machine()
        machine.settings(maxConcurrentStreams: 5)
        for _ in 0..<5 { machine.started(stream: 1, now: at(0)) }
        machine.settings(maxConcurrentStreams: 2)
        #expect(machine.freeStreams == 0)
        #expect(machine.openStreams == 5)
        for _ in 0..<3 { _ = machine.ended(self.end(status: 200, isComplete: true), now: at(0)) }
        #expect(machine.freeStreams == 0)
        _ = machine.ended(self.end(status: 200, isComplete: true), now: at(0))
        #expect(machine.freeStreams == 1)
        machine.settings(maxConcurrentStreams: 0)
        #expect(machine.freeStreams == 0)
        machine.settings(maxConcurrentStreams: .max)
        #expect(machine.limit == APNSConfiguration().streamCap)
    }

    @Test func aConnectionHasOneStreamUntilItsTokenIsAccepted() {
        var machine = self.machine(isProven: false)
        machine.settings(maxConcurrentStreams: 100)
        #expect(machine.freeStreams == 1)
        machine.started(stream: 1, now: at(0))
        _ = machine.ended(self.end(status: 403, isComplete: true), now: at(0))
        #expect(machine.freeStreams == 1)
        machine.started(stream: 1, now: at(0))
        _ = machine.ended(self.end(status: 410, isComplete: true), now: at(0))
        #expect(machine.freeStreams == 16)
    }

    /// The address may lead to another server, so the name is resolved again for the next connection.
    @Test func twoAnswersOfAnotherServerInARowRetireAConnection() {
        var machine = self.machine(isProven: false)
        machine.settings(maxConcurrentStreams: 100)
        func answered(_ status: Int, isForeign: Bool) {
            machine.started(stream: 1, now: at(0))
            _ = machine.ended(self.end(status: status, isComplete: true), isForeign: isForeign, now: at(0))
        }
        answered(404, isForeign: true)
        #expect(machine.freeStreams == 1, "it proves nothing about the provider token")
        #expect(machine.lastGoodAnswer == nil)
        answered(200, isForeign: false)
        answered(404, isForeign: true)
        #expect(machine.phase == .open)
        answered(301, isForeign: true)
        #expect(machine.isDraining)
        #expect(machine.retirement == .foreign)
    }

    @Test func aStreamsEndIsAnAnswerOrRefusedOrAFailure() {
        var machine = self.machine()
        #expect(machine.ended(self.end(status: 200, isComplete: true), now: at(0)) == .answered(status: 200))
        #expect(
            machine.ended(self.end(status: 400, isComplete: true, code: .cancel), now: at(0)) == .answered(status: 400))
        #expect(machine.ended(self.end(code: .refusedStream), now: at(0)) == .again)
        for end in [self.end(), self.end(status: 200), self.end(isComplete: true), self.end(code: .protocolError)] {
            #expect(machine.ended(end, now: at(0)) == .failed(APNSError(.protocolViolation, "")))
        }
        #expect(machine.openStreams == 0, "more ends than starts are no trap")
    }

    @Test func aRetiredConnectionStartsNothingAndEndsWhenEmpty() {
        var machine = self.machine()
        machine.settings(maxConcurrentStreams: 10)
        machine.started(stream: 1, now: at(0))
        machine.retire(.goAway, now: at(1))
        machine.retire(.goAway, now: at(9))
        #expect(machine.freeStreams == 0)
        #expect(!machine.isDrained)
        #expect(machine.phase == .draining(until: at(16)), "the second GOAWAY of a pair changes nothing")
        #expect(machine.tick(now: at(4)) == .nothing)
        #expect(machine.tick(now: at(16)) == .close(APNSError(.connectionLost, "")))
        _ = machine.ended(self.end(status: 200, isComplete: true), now: at(0))
        #expect(machine.isDrained)
    }

    @Test func aSilentConnectionIsPingedOnlyWhileAStreamIsOpen() {
        var machine = self.machine()
        #expect(machine.tick(now: at(1_000)) == .nothing)
        machine.received(now: at(1_000))
        machine.started(stream: 1, now: at(1_000))
        #expect(machine.tick(now: at(1_004)) == .nothing)
        #expect(machine.tick(now: at(1_005)) == .ping)
        #expect(machine.tick(now: at(1_006)) == .nothing, "one PING")
        machine.received(now: at(1_007))
        #expect(machine.tick(now: at(1_011)) == .nothing)
        #expect(machine.tick(now: at(1_012)) == .ping)
        #expect(machine.tick(now: at(1_016)) == .nothing)
        #expect(machine.tick(now: at(1_017)) == .close(APNSError(.connectionLost, "")))
    }

    @Test func threeTimeoutsInARowRetireAConnection() {
        var machine = self.machine()
        machine.settings(maxConcurrentStreams: 10)
        for _ in 0..<2 { machine.timedOut(now: at(0)) }
        _ = machine.ended(self.end(status: 200, isComplete: true), now: at(0))
        for _ in 0..<2 { machine.timedOut(now: at(0)) }
        #expect(machine.phase == .open)
        machine.timedOut(now: at(0))
        #expect(machine.phase == .draining(until: at(15)))
    }

    @Test func aHandshakeTimesOutAfterTenSeconds() {
        var machine = ConnectionStateMachine(isProven: true, configuration: APNSConfiguration(), now: at(0))
        #expect(machine.tick(now: at(9)) == .nothing)
        #expect(machine.tick(now: at(10)) == .close(APNSError(.connecting, "")))
        machine.closed()
        #expect(machine.tick(now: at(99)) == .nothing)
        machine.handshakeCompleted(now: at(99))
        machine.retire(.goAway, now: at(99))
        #expect(machine.phase == .closed, "none goes back")
    }
}
