@testable import APNS
@testable import HTTP2
import Model
import NIOCore
import Testing

private func at(_ seconds: Int64) -> NIODeadline { .uptimeNanoseconds(0) + .seconds(1_000 + seconds) }

@Suite struct BackoffTests {
    @Test func theFirstWaitIsQuickAndTheOthersDoubleUpToAMinute() {
        let backoff = Backoff()
        #expect(backoff.delay(attempt: 0, jitter: 1) == .milliseconds(100))
        #expect(backoff.delay(attempt: 0, jitter: 0) == .zero)
        let longest = (1...8).map { backoff.delay(attempt: $0, jitter: 1) }
        #expect(longest == [1, 2, 4, 8, 16, 32, 60, 60].map { .seconds($0) })
        #expect(backoff.delay(attempt: 3, jitter: 0) == .seconds(2))
        #expect(backoff.delay(attempt: .max, jitter: 7) == .seconds(60))
    }
}

@Suite struct ReconnectStateMachineTests {
    @Test func nothingConnectsBeforeItIsWanted() {
        var machine = ReconnectStateMachine(backoff: Backoff())
        #expect(machine.waited() == .nothing)
        #expect(machine.lost(jitter: 1) == .nothing)
        #expect(machine.wanted() == .connect)
        #expect(machine.wanted() == .nothing)
    }

    @Test func failuresWaitLongerUntilAConnectionProvesItself() {
        var machine = ReconnectStateMachine(backoff: Backoff())
        #expect(machine.wanted() == .connect)
        #expect(machine.lost(jitter: 1) == .wait(.milliseconds(100)))
        #expect(machine.lost(jitter: 1) == .nothing, "one loss, one wait")
        #expect(machine.wanted() == .nothing)
        #expect(machine.waited() == .connect)
        machine.connected()
        #expect(machine.lost(jitter: 1) == .wait(.seconds(1)), "a handshake alone proves nothing")
        #expect(machine.waited() == .connect)
        machine.connected()
        machine.proven()
        #expect(machine.lost(jitter: 1) == .wait(.milliseconds(100)))
    }

    @Test func stoppedIsForGood() {
        var machine = ReconnectStateMachine(backoff: Backoff())
        machine.stop()
        #expect(machine.wanted() == .nothing)
        #expect(machine.waited() == .nothing)
        #expect(machine.lost(jitter: 0) == .nothing)
        machine.connected()
        #expect(machine.state == .stopped)
    }
}

@Suite struct PushQueueTests {
    private func queue(limit: Int = 10) -> PushQueue<Int> {
        PushQueue(limit: limit, requestTimeout: .seconds(10), queueTimeout: .seconds(60))
    }

    @Test func itIsBoundedAndKeepsOrder() {
        var queue = self.queue(limit: 2)
        #expect(queue.append(1, now: at(0)) && queue.append(2, now: at(0)) && !queue.append(3, now: at(0)))
        #expect(queue.next()?.element == 1 && queue.next()?.element == 2 && queue.next() == nil)
    }

    @Test func whatWasRefusedGoesFirstEvenIntoAFullQueue() {
        var queue = self.queue(limit: 1)
        _ = queue.append(1, now: at(0))
        guard let first = queue.next() else { return }
        _ = queue.append(2, now: at(0))
        queue.putBack(first)
        #expect(queue.takeAll() == [1, 2])
        #expect(queue.isEmpty)
    }

    @Test func aQueueThatStandsStillEmptiesAfterTheRequestTimeout() {
        var queue = self.queue()
        _ = queue.append(1, now: at(0))
        _ = queue.append(2, now: at(5))
        #expect(queue.takeExpired(now: at(9)).isEmpty)
        #expect(queue.takeExpired(now: at(10)) == [1])
        #expect(queue.takeExpired(now: at(15)) == [2])
    }

    @Test func aQueueThatMovesWaitsLongerButNotForEver() {
        var queue = self.queue()
        _ = queue.append(1, now: at(0))
        for second in stride(from: Int64(1), through: 59, by: 1) {
            queue.progressed(now: at(second))
            #expect(queue.takeExpired(now: at(second)).isEmpty)
        }
        #expect(queue.takeExpired(now: at(60)) == [1])
    }

    @Test func aRetryHasTheDeadlineOfItsFirstStart() {
        var queue = self.queue()
        _ = queue.append(1, now: at(0))
        guard var entry = queue.next() else { return }
        entry.started = at(2)
        queue.putBack(entry)
        queue.progressed(now: at(11))
        #expect(queue.takeExpired(now: at(11)).isEmpty)
        #expect(queue.takeExpired(now: at(12)) == [1])
    }
}

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
        machine.started(now: at(0))
        #expect(machine.freeStreams == 0)
        machine.settings(maxConcurrentStreams: 100)
        #expect(machine.freeStreams == 99)
    }

    @Test func theLimitFollowsEverySettingsAlsoBelowWhatIsOpen() {
        var machine = self.machine()
        machine.settings(maxConcurrentStreams: 5)
        for _ in 0..<5 { machine.started(now: at(0)) }
        machine.settings(maxConcurrentStreams: 2)
        #expect(machine.freeStreams == 0 && machine.openStreams == 5)
        for _ in 0..<3 { _ = machine.ended(self.end(status: 200, isComplete: true)) }
        #expect(machine.freeStreams == 0)
        _ = machine.ended(self.end(status: 200, isComplete: true))
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
        machine.started(now: at(0))
        _ = machine.ended(self.end(status: 403, isComplete: true))
        #expect(machine.freeStreams == 1)
        machine.started(now: at(0))
        _ = machine.ended(self.end(status: 410, isComplete: true))
        #expect(machine.freeStreams == 100)
    }

    @Test func aStreamsEndIsAnAnswerOrRefusedOrAFailure() {
        var machine = self.machine()
        #expect(machine.ended(self.end(status: 200, isComplete: true)) == .answered(status: 200))
        #expect(machine.ended(self.end(status: 400, isComplete: true, code: .cancel)) == .answered(status: 400))
        #expect(machine.ended(self.end(code: .refusedStream)) == .again)
        for end in [self.end(), self.end(status: 200), self.end(isComplete: true), self.end(code: .protocolError)] {
            #expect(machine.ended(end) == .failed(APNSError(.protocolViolation, "")))
        }
        #expect(machine.openStreams == 0, "more ends than starts are no trap")
    }

    @Test func aRetiredConnectionStartsNothingAndEndsWhenEmpty() {
        var machine = self.machine()
        machine.settings(maxConcurrentStreams: 10)
        machine.started(now: at(0))
        machine.retire(now: at(1))
        machine.retire(now: at(9))
        #expect(machine.freeStreams == 0 && !machine.isDrained)
        #expect(machine.phase == .draining(until: at(26)), "the second GOAWAY of a pair changes nothing")
        #expect(machine.tick(now: at(14)) == .nothing)
        #expect(machine.tick(now: at(26)) == .close(APNSError(.connectionLost, "")))
        _ = machine.ended(self.end(status: 200, isComplete: true))
        #expect(machine.isDrained)
    }

    @Test func silenceIsAskedAboutOnlyWhileSomethingIsOutstanding() {
        var machine = self.machine()
        #expect(machine.tick(now: at(1_000)) == .nothing)
        machine.started(now: at(1_000))
        #expect(machine.tick(now: at(1_014)) == .nothing)
        #expect(machine.tick(now: at(1_015)) == .ping)
        #expect(machine.tick(now: at(1_016)) == .nothing, "one PING")
        machine.received(now: at(1_020))
        #expect(machine.tick(now: at(1_034)) == .nothing)
        #expect(machine.tick(now: at(1_035)) == .ping)
        #expect(machine.tick(now: at(1_050)) == .close(APNSError(.connectionLost, "")))
    }

    @Test func severalTimeoutsInARowRetireButAnAnswerBetweenForgives() {
        var machine = self.machine()
        machine.settings(maxConcurrentStreams: 10)
        for _ in 0..<2 { machine.timedOut(now: at(0)) }
        _ = machine.ended(self.end(status: 200, isComplete: true))
        for _ in 0..<2 { machine.timedOut(now: at(0)) }
        #expect(machine.phase == .open)
        machine.timedOut(now: at(0))
        #expect(machine.phase == .draining(until: at(25)))
    }

    @Test func aHandshakeHasItsTime() {
        var machine = ConnectionStateMachine(isProven: true, configuration: APNSConfiguration(), now: at(0))
        #expect(machine.tick(now: at(9)) == .nothing)
        #expect(machine.tick(now: at(10)) == .close(APNSError(.connecting, "")))
        machine.closed()
        #expect(machine.tick(now: at(99)) == .nothing)
        machine.handshakeCompleted(now: at(99))
        machine.retire(now: at(99))
        #expect(machine.phase == .closed, "none goes back")
    }
}

@Suite struct NotificationIdentifierTests {
    @Test func itIsALowerCaseUUIDAndNeverTheSame() {
        var generator = SystemRandomNumberGenerator()
        var seen: Set<[UInt8]> = []
        for _ in 0..<1_000 {
            let text = makeNotificationIdentifier(using: &generator)
            let parts = text.split(separator: UInt8(ascii: "-")).map(\.count)
            #expect(parts == [8, 4, 4, 4, 12])
            #expect(text[14] == UInt8(ascii: "4") && Array("89ab".utf8).contains(text[19]))
            #expect(text.allSatisfy { Array("0123456789abcdef-".utf8).contains($0) })
            seen.insert(text)
        }
        #expect(seen.count == 1_000)
    }
}
