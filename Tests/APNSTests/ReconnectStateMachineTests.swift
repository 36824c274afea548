import NIOCore
import Testing

@testable import APNS

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
