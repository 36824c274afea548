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

    @Test func nothingStartsBeforeTheHandshakeAndOneStreamBeforeTheSettings() {
        var machine = ConnectionStateMachine(isProven: true, configuration: APNSConfiguration(), now: at(0))
        #expect(machine.freeStreams == 0)
        machine.handshakeCompleted(now: at(0))
        #expect(machine.freeStreams == 1)
        machine.started(stream: 1, now: at(0))
        #expect(machine.freeStreams == 0)
        machine.settings(maxConcurrentStreams: 100)
        #expect(machine.freeStreams == 99)
    }

    @Test func theLimitFollowsEverySettingsAlsoBelowWhatIsOpen() {
        var machine = self.machine()
        machine.settings(maxConcurrentStreams: 5)
        for _ in 0..<5 { machine.started(stream: 1, now: at(0)) }
        machine.settings(maxConcurrentStreams: 2)
        #expect(machine.freeStreams == 0 && machine.openStreams == 5)
        for _ in 0..<3 { _ = machine.ended(self.end(status: 200, isComplete: true), now: at(0)) }
        #expect(machine.freeStreams == 0)
        _ = machine.ended(self.end(status: 200, isComplete: true), now: at(0))
        #expect(machine.freeStreams == 1)
        machine.settings(maxConcurrentStreams: 0)
        #expect(machine.freeStreams == 0)
        machine.settings(maxConcurrentStreams: .max)
        #expect(machine.limit == APNSConfiguration().streamCap)
    }

    @Test func withATokenThereIsOneStreamUntilItWasAccepted() {
        var machine = self.machine(isProven: false)
        machine.settings(maxConcurrentStreams: 100)
        #expect(machine.freeStreams == 1)
        machine.started(stream: 1, now: at(0))
        _ = machine.ended(self.end(status: 403, isComplete: true), now: at(0))
        #expect(machine.freeStreams == 1)
        machine.started(stream: 1, now: at(0))
        _ = machine.ended(self.end(status: 410, isComplete: true), now: at(0))
        #expect(machine.freeStreams == 100)
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
        #expect(machine.freeStreams == 0 && !machine.isDrained)
        #expect(machine.phase == .draining(until: at(16)), "the second GOAWAY of a pair changes nothing")
        #expect(machine.tick(now: at(4)) == .nothing)
        #expect(machine.tick(now: at(16)) == .close(APNSError(.connectionLost, "")))
        _ = machine.ended(self.end(status: 200, isComplete: true), now: at(0))
        #expect(machine.isDrained)
    }

    @Test func silenceIsAskedAboutOnlyWhileSomethingIsOutstanding() {
        var machine = self.machine()
        #expect(machine.tick(now: at(1_000)) == .nothing)
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

    @Test func severalTimeoutsInARowRetireButAnAnswerBetweenForgives() {
        var machine = self.machine()
        machine.settings(maxConcurrentStreams: 10)
        for _ in 0..<2 { machine.timedOut(now: at(0)) }
        _ = machine.ended(self.end(status: 200, isComplete: true), now: at(0))
        for _ in 0..<2 { machine.timedOut(now: at(0)) }
        #expect(machine.phase == .open)
        machine.timedOut(now: at(0))
        #expect(machine.phase == .draining(until: at(15)))
    }

    @Test func aHandshakeHasItsTime() {
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
