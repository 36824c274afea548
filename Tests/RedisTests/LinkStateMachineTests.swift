import NIOCore
import Testing

@testable import Redis

private typealias Machine = LinkStateMachine<String>

/// Everything that can happen to a link, on a clock of seconds.
private enum Event: CaseIterable {
    case submit, start, connected, reply, errorReply, lost, pauseEnded, hitDeadline, close
}

extension LinkStateMachine {
    /// Reports the connection as established, with a preparation of this many commands.
    fileprivate mutating func connected(answers: Int, now: NIODeadline) -> Bool {
        let steps = [LinkPreparation.Step](repeating: .authenticate, count: answers - 1) + [.ping]
        return self.connected(LinkPreparation(.server, steps: steps), now: now)
    }
}

@Suite struct LinkStateMachineTests {
    private static func machine(commands: Int = 10, bytes: Int = 1000) -> Machine {
        Machine(
            limits: .init(
                commands: commands, bytes: bytes, commandDeadline: .seconds(4), preparationDeadline: .seconds(2)))
    }

    private static func at(_ seconds: Int64) -> NIODeadline { .uptimeNanoseconds(0) + .seconds(seconds) }

    private static func ready() -> Machine {
        var machine = Self.machine()
        _ = machine.start()
        _ = machine.connected(answers: 1, now: Self.at(0))
        _ = machine.received(.status("PONG"), now: Self.at(0))
        #expect(machine.state == .ready)
        return machine
    }

    // MARK: Every state and every event

    @Test func everyRequestEndsExactlyOnceInAnySequenceOfEvents() {
        // All sequences of five events, from every state they lead to.
        var sequences: [[Event]] = [[]]
        for _ in 0..<5 { sequences = sequences.flatMap { start in Event.allCases.map { start + [$0] } } }
        for sequence in sequences {
            var run = Run(machine: Self.machine())
            for event in sequence { run.apply(event) }
            run.apply(.close)
            guard run.left.sorted() == run.submitted.sorted(), run.machine.nextDeadline == nil else {
                Issue.record("\(sequence): submitted \(run.submitted), left \(run.left)")
                return
            }
        }
    }

    private struct Run {
        var machine: Machine
        var now: Int64 = 0
        var submitted: [String] = []
        var left: [String] = []

        mutating func apply(_ event: Event) {
            self.now += 1
            let now = LinkStateMachineTests.at(self.now)
            switch event {
            case .submit:
                let name = "r\(self.submitted.count)"
                self.submitted.append(name)
                if case .fail = self.machine.submit(name, commands: 1, bytes: 1, now: now) { self.left.append(name) }
            case .start: _ = self.machine.start()
            case .connected: _ = self.machine.connected(answers: 1, now: now)
            case .reply: self.take(self.machine.received(.status("OK"), now: now))
            case .errorReply: self.take(self.machine.received(.error("READONLY x"), now: now))
            case .lost: self.take(self.machine.lost(RedisError(.connection, "x"))?.failures)
            case .pauseEnded: _ = self.machine.pauseEnded()
            case .hitDeadline:
                self.now += 3
                switch self.machine.hitDeadline(now: LinkStateMachineTests.at(self.now)) {
                case .fail(let failures): self.take(failures)
                case .replace(let replacement): self.take(replacement.failures)
                }
            case .close: self.left += self.machine.close()
            }
        }

        private mutating func take(_ failures: [Machine.Failure]?) { self.left += (failures ?? []).map(\.request) }

        private mutating func take(_ action: Machine.ReplyAction) {
            switch action {
            case .none, .write: break
            case .divert(let requests): self.left += requests
            case .complete(let request, _): self.left.append(request)
            case .completeAndReplace(let request, _, let replacement):
                self.left.append(request)
                self.take(replacement.failures)
            case .replace(let replacement): self.take(replacement.failures)
            }
        }
    }

    // MARK: The rules one by one

    @Test func theFirstRequestConnectsAndLaterRequestsWait() {
        var machine = Self.machine()
        guard case .connect = machine.submit("a", commands: 1, bytes: 1, now: Self.at(0)) else {
            Issue.record()
            return
        }
        guard case .wait = machine.submit("b", commands: 1, bytes: 1, now: Self.at(1)) else {
            Issue.record()
            return
        }
        #expect(machine.connected(answers: 2, now: Self.at(1)) == true)
        guard case .none = machine.received(.status("OK"), now: Self.at(1)) else {
            Issue.record()
            return
        }
        guard case .write(let requests) = machine.received(.status("PONG"), now: Self.at(1)) else {
            Issue.record()
            return
        }
        #expect(requests == ["a", "b"])
        guard case .complete("a", let answers) = machine.received(.integer(1), now: Self.at(1)) else {
            Issue.record()
            return
        }
        #expect(answers == [.integer(1)])
    }

    @Test func aRequestOfSeveralCommandsCompletesWithItsLastAnswer() {
        var machine = Self.ready()
        guard case .write = machine.submit("a", commands: 3, bytes: 1, now: Self.at(0)) else {
            Issue.record()
            return
        }
        for value in [RedisValue.integer(1), .error("ERR x")] {
            guard case .none = machine.received(value, now: Self.at(0)) else {
                Issue.record()
                return
            }
        }
        guard case .complete("a", let answers) = machine.received(.null, now: Self.at(0)) else {
            Issue.record()
            return
        }
        #expect(answers == [.integer(1), .error("ERR x"), .null])
    }

    @Test func aRefusedPreparationReplacesTheConnectionAndKeepsTheReason() {
        var machine = Self.machine()
        _ = machine.submit("a", commands: 1, bytes: 1, now: Self.at(0))
        _ = machine.connected(answers: 2, now: Self.at(0))
        guard case .replace(let replacement) = machine.received(.error("WRONGPASS bad"), now: Self.at(0)) else {
            Issue.record()
            return
        }
        #expect(replacement.failures.isEmpty)
        #expect(replacement.attempt == 1)
        #expect(machine.state == .pausing)
        guard case .fail(let failures) = machine.hitDeadline(now: Self.at(4)) else {
            Issue.record()
            return
        }
        #expect(failures.map(\.request) == ["a"])
        #expect(failures[0].error.code == .connection)
        #expect(failures[0].error.message.contains("WRONGPASS"))
    }

    @Test func aUserWithoutPermissionToPingIsAccepted() {
        var machine = Self.machine()
        _ = machine.start()
        _ = machine.connected(answers: 1, now: Self.at(0))
        guard case .write = machine.received(.error("NOPERM ping"), now: Self.at(0)) else {
            Issue.record()
            return
        }
    }

    @Test func aMissedDeadlineReplacesTheConnectionAndFailsPendingRequests() {
        var machine = Self.ready()
        _ = machine.submit("late", commands: 1, bytes: 1, now: Self.at(0))
        _ = machine.submit("behind", commands: 1, bytes: 1, now: Self.at(3))
        #expect(machine.nextDeadline == Self.at(4))
        guard case .fail(let none) = machine.hitDeadline(now: Self.at(3)), none.isEmpty else {
            Issue.record()
            return
        }
        guard case .replace(let replacement) = machine.hitDeadline(now: Self.at(4)) else {
            Issue.record()
            return
        }
        #expect(replacement.failures.map(\.request) == ["late", "behind"])
        #expect(replacement.failures.map(\.error.code) == [.timeout, .connection])
        #expect(machine.state == .pausing)
    }

    @Test func unwrittenRequestsSurviveALostConnection() {
        var machine = Self.ready()
        _ = machine.submit("written", commands: 1, bytes: 1, now: Self.at(0))
        let replacement = machine.lost(RedisError(.connection, "gone"))
        #expect(replacement?.failures.map(\.request) == ["written"])
        _ = machine.submit("waiting", commands: 1, bytes: 1, now: Self.at(1))
        #expect(machine.lost(RedisError(.connection, "again")) == nil)
        #expect(machine.pauseEnded() == true)
        #expect(machine.connected(answers: 1, now: Self.at(4)) == true)
        guard case .write(let requests) = machine.received(.status("PONG"), now: Self.at(4)) else {
            Issue.record()
            return
        }
        #expect(requests == ["waiting"])
        #expect(machine.nextDeadline == Self.at(5), "it waited three of its four seconds")
    }

    @Test func aDelayedRequestGetsAQuarterOfTheDeadlineForItsReply() {
        var machine = Self.machine()
        _ = machine.submit("a", commands: 1, bytes: 1, now: Self.at(0))
        _ = machine.connected(answers: 1, now: Self.at(3))
        _ = machine.received(.status("PONG"), now: Self.at(3) + .milliseconds(900))
        #expect(machine.nextDeadline == Self.at(4) + .milliseconds(900))
    }

    @Test func theAttemptCountIsResetOnlyByAReplyToARequest() {
        var machine = Self.machine()
        _ = machine.start()
        for attempt in 1...3 {
            #expect(machine.lost(RedisError(.connection, "x"))?.attempt == attempt)
            #expect(machine.pauseEnded() == true)
        }
        _ = machine.connected(answers: 1, now: Self.at(0))
        _ = machine.received(.status("PONG"), now: Self.at(0))
        #expect(machine.lost(RedisError(.connection, "x"))?.attempt == 4, "accepting and hanging up is no success")
        _ = machine.pauseEnded()
        _ = machine.connected(answers: 1, now: Self.at(0))
        _ = machine.received(.status("PONG"), now: Self.at(0))
        _ = machine.submit("a", commands: 1, bytes: 1, now: Self.at(0))
        _ = machine.received(.null, now: Self.at(0))
        #expect(machine.lost(RedisError(.connection, "x"))?.attempt == 1)
    }

    @Test func aReadOnlyReplyCompletesItsRequestAndReplacesTheConnection() {
        var machine = Self.ready()
        _ = machine.submit("a", commands: 1, bytes: 1, now: Self.at(0))
        _ = machine.submit("b", commands: 1, bytes: 1, now: Self.at(0))
        guard case .completeAndReplace("a", _, let replacement) = machine.received(.error("READONLY"), now: Self.at(0))
        else {
            Issue.record()
            return
        }
        #expect(replacement.failures.map(\.request) == ["b"])
    }

    /// A pipeline may end with a command that a replica accepts.
    @Test(arguments: 0..<3) func aReadOnlyReplyCountsWhereverItIsInAPipeline(_ place: Int) {
        var machine = Self.ready()
        _ = machine.submit("a", commands: 3, bytes: 1, now: Self.at(0))
        _ = machine.submit("b", commands: 1, bytes: 1, now: Self.at(0))
        for index in 0..<2 {
            let reply: RedisValue = index == place ? .error("READONLY x") : .integer(1)
            guard case .none = machine.received(reply, now: Self.at(0)) else {
                Issue.record("ended at \(index)")
                return
            }
        }
        let last: RedisValue = place == 2 ? .error("READONLY x") : .integer(1)
        guard case .completeAndReplace("a", let answers, let replacement) = machine.received(last, now: Self.at(0))
        else {
            Issue.record("the connection to the replica stays")
            return
        }
        #expect(answers.count == 3)
        #expect(replacement.failures.map(\.request) == ["b"])
    }

    @Test func anUnsolicitedReplyReplacesTheConnection() {
        var machine = Self.ready()
        guard case .replace = machine.received(.integer(1), now: Self.at(0)) else {
            Issue.record()
            return
        }
        #expect(machine.state == .pausing)
    }

    @Test func pendingCommandsAndBytesAreBounded() {
        var machine = Self.machine(commands: 3, bytes: 100)
        _ = machine.submit("a", commands: 2, bytes: 50, now: Self.at(0))
        for (commands, bytes) in [(2, 1), (1, 51), (Int.max, Int.max)] {
            guard case .fail(let error) = machine.submit("b", commands: commands, bytes: bytes, now: Self.at(0)) else {
                Issue.record()
                return
            }
            #expect(error.code == .queueFull)
        }
        _ = machine.hitDeadline(now: Self.at(9))
        guard case .wait = machine.submit("c", commands: 3, bytes: 100, now: Self.at(9)) else {
            Issue.record()
            return
        }
    }

    @Test func aConnectionThatIsNotPreparedInTimeIsReplaced() {
        var machine = Self.machine()
        _ = machine.start()
        _ = machine.connected(answers: 1, now: Self.at(0))
        #expect(machine.nextDeadline == Self.at(2))
        guard case .replace = machine.hitDeadline(now: Self.at(2)) else {
            Issue.record()
            return
        }
    }

    @Test func aClosedLinkRejectsRequestsAndIgnoresEvents() {
        var machine = Self.ready()
        _ = machine.submit("a", commands: 1, bytes: 1, now: Self.at(0))
        #expect(machine.close() == ["a"])
        guard case .fail(let error) = machine.submit("b", commands: 1, bytes: 1, now: Self.at(0)) else {
            Issue.record()
            return
        }
        #expect(error.code == .closed)
        #expect(machine.start() == false)
        #expect(machine.pauseEnded() == false)
        #expect(machine.connected(answers: 1, now: Self.at(0)) == false)
        #expect(machine.close() == [])
    }
}
