import DequeModule
import NIOCore

/// The state machine that decides what one link (the connection of one event loop, and those that replace it) does on
/// each event.
///
/// Pure: no channel, no clock, no randomness. Every request that was submitted leaves through exactly one action.
/// Answers belong to requests by their order alone, so any event that breaks the order (a lost connection, a late
/// answer, one too many) ends the connection. A request is written at most once: if its connection is lost, it fails.
struct LinkStateMachine<Request> {
    /// Waiting requests are those not yet written, unanswered ones are written. Unanswered ones exist in `ready` only.
    enum State: Hashable {
        /// No connection was wanted yet. Goes to: connecting, closed.
        case idle
        /// A TCP connection is being made; it ends by itself. Goes to: preparing, pausing, closed.
        case connecting
        /// TLS, AUTH, PING and the like are in progress until `deadline`. Goes to: ready, pausing, closed.
        case preparing(LinkPreparation, deadline: NIODeadline)
        /// Requests are written as they arrive. Goes to: pausing, closed.
        case ready
        /// Waits before the next attempt. Goes to: connecting, closed.
        case pausing
        /// Closed permanently.
        case closed
    }

    /// Bounds and deadlines, see `RedisConfiguration`.
    struct Limits {
        var commands: Int
        var bytes: Int
        var commandDeadline: TimeAmount
        var preparationDeadline: TimeAmount
    }

    /// A request that ended without an answer.
    typealias Failure = (request: Request, error: RedisError)

    private struct Entry {
        let request: Request
        let commands: Int
        let bytes: Int
        var deadline: NIODeadline
        var answers: [RedisValue] = []
        /// True if one of its commands was refused by a replica.
        var isReadOnly = false
    }

    private(set) var state = State.idle
    /// The self-description of the server that was prepared last.
    private(set) var findings = LinkPreparation.Findings()
    private var waiting = Deque<Entry>()
    private var unanswered = Deque<Entry>()
    private var commands = 0
    private var bytes = 0
    private var failuresInARow = 0
    /// The reason why there is no connection, for the errors of requests that wait for one.
    private var lastFailure: RedisError?
    private let limits: Limits

    init(limits: Limits) { self.limits = limits }

    /// The moment at which `hitDeadline` must be called, nil if nothing waits.
    ///
    /// All requests have the same deadline, so the first of each queue is the earliest.
    var nextDeadline: NIODeadline? {
        var earliest = self.unanswered.first?.deadline
        if let deadline = self.waiting.first?.deadline { earliest = min(earliest ?? deadline, deadline) }
        if case .preparing(_, let deadline) = self.state { earliest = min(earliest ?? deadline, deadline) }
        return earliest
    }
}

// MARK: Requests

extension LinkStateMachine {
    enum SubmitAction {
        /// Write its commands now; it is counted as unanswered.
        case write
        /// Nothing: it is kept until there is a connection.
        case wait
        /// It is kept; make a connection.
        case connect
        case fail(RedisError)
    }

    /// Accepts or refuses a request with this many commands.
    mutating func submit(_ request: Request, commands: Int, bytes: Int, now: NIODeadline) -> SubmitAction {
        if self.state == .closed { return .fail(Self.closedError) }
        guard commands <= self.limits.commands - self.commands, bytes <= self.limits.bytes - self.bytes else {
            let found = "\(self.commands) commands of \(self.bytes) bytes are pending"
            return .fail(RedisError(.queueFull, "sending \(commands) commands of \(bytes) bytes: \(found)"))
        }
        self.commands += commands
        self.bytes += bytes
        let deadline = now + self.limits.commandDeadline
        let entry = Entry(request: request, commands: commands, bytes: bytes, deadline: deadline)
        switch self.state {
        case .ready:
            self.unanswered.append(entry)
            return .write
        case .idle:
            self.waiting.append(entry)
            self.state = .connecting
            return .connect
        case .connecting, .preparing, .pausing, .closed:
            self.waiting.append(entry)
            return .wait
        }
    }

    enum ReplyAction {
        /// More answers are needed.
        case none
        /// The request has all of its answers.
        case complete(Request, [RedisValue])
        /// As `complete`, but then end the connection: the server is a replica by now, and the name may lead elsewhere.
        case completeAndReplace(Request, [RedisValue], Replacement)
        /// The connection is prepared; write these requests.
        case write([Request])
        /// The server belongs to a cluster, which this link cannot serve. It is closed; these waited.
        case divert([Request])
        case replace(Replacement)
    }

    /// The action for a connection that cannot be used any more: detach and close it, fail the requests, and after a
    /// pause for this attempt (`RedisLink.pause`) call `pauseEnded`.
    struct Replacement {
        var failures: [Failure] = []
        var attempt: Int
        var cause: RedisError
    }

    /// Processes a complete reply from the connection.
    ///
    /// Requests that waited for the connection get at least a quarter of the deadline for their answers: if the first
    /// of them were written with a millisecond left, its timeout would end the new connection for all the others.
    /// - Parameter now: evaluated once per connection, not per reply.
    mutating func received(_ reply: RedisValue, now: @autoclosure () -> NIODeadline) -> ReplyAction {
        switch self.state {
        case .preparing(var preparation, let deadline):
            switch preparation.received(reply) {
            case .more:
                self.state = .preparing(preparation, deadline: deadline)
                return .none
            case .refused(let error): return .replace(self.replace(because: error))
            case .ready: self.findings = preparation.findings
            }
            guard self.findings.slots == nil else { return .divert(self.close()) }
            self.state = .ready
            let least = now() + .nanoseconds(self.limits.commandDeadline.nanoseconds / 4)
            for var entry in self.waiting {
                entry.deadline = max(entry.deadline, least)
                self.unanswered.append(entry)
            }
            self.waiting = []
            return .write(self.unanswered.map(\.request))
        case .ready:
            return self.receivedAnswer(reply)
        case .idle, .connecting, .pausing, .closed:
            // The driver has released the connection already.
            return .none
        }
    }

    private mutating func receivedAnswer(_ reply: RedisValue) -> ReplyAction {
        guard !self.unanswered.isEmpty else {
            return .replace(self.replace(because: RedisError(.protocol, "reading a reply: no request is open")))
        }
        if case .error(let text) = reply {
            if text.hasPrefix("READONLY") { self.unanswered[0].isReadOnly = true }
        } else {
            self.failuresInARow = 0
        }
        if self.unanswered[0].commands > 1 {
            if self.unanswered[0].answers.isEmpty {
                self.unanswered[0].answers.reserveCapacity(self.unanswered[0].commands)
            }
            self.unanswered[0].answers.append(reply)
            guard self.unanswered[0].answers.count == self.unanswered[0].commands else { return .none }
        }
        var entry = self.unanswered.removeFirst()
        self.release(entry)
        if entry.commands == 1 { entry.answers = [reply] }
        guard entry.isReadOnly else { return .complete(entry.request, entry.answers) }
        let error = RedisError(.connection, "using the connection: the server has become a replica")
        return .completeAndReplace(entry.request, entry.answers, self.replace(because: error))
    }
}

// MARK: The connection

extension LinkStateMachine {
    /// Asks for a connection before the first request.
    /// - Returns: true if one must be made now.
    mutating func start() -> Bool {
        guard self.state == .idle else { return false }
        self.state = .connecting
        return true
    }

    /// Notes that the TCP connection is established.
    /// - Parameter preparation: the commands that are written first.
    /// - Returns: true: adopt it and write them. False: close it, it is not needed any more.
    mutating func connected(_ preparation: LinkPreparation, now: NIODeadline) -> Bool {
        guard self.state == .connecting else { return false }
        self.state = .preparing(preparation, deadline: now + self.limits.preparationDeadline)
        return true
    }

    /// Notes that the attempt to connect failed, or that the connection ended or broke the protocol.
    /// - Returns: nil if that changes nothing.
    mutating func lost(_ error: RedisError) -> Replacement? {
        switch self.state {
        case .connecting, .preparing, .ready: self.replace(because: error)
        case .idle, .pausing, .closed: nil
        }
    }

    /// Notes that the pause that a `Replacement` required is over.
    /// - Returns: true if a connection must be made now.
    mutating func pauseEnded() -> Bool {
        guard self.state == .pausing else { return false }
        self.state = .connecting
        return true
    }

    enum DeadlineAction {
        /// The connection stays; these requests waited too long for one.
        case fail([Failure])
        case replace(Replacement)
    }

    /// Fails the requests whose deadline has passed.
    mutating func hitDeadline(now: NIODeadline) -> DeadlineAction {
        if let first = self.unanswered.first, first.deadline <= now {
            let limit = self.limits.commandDeadline.text
            let timeout = RedisError(.timeout, "waiting for an answer: none in \(limit)")
            let late = self.takeUnanswered { $0.deadline <= now }.map { ($0.request, timeout) }
            var replacement = self.replace(
                because: RedisError(.connection, "waiting for an answer: an earlier command got none in \(limit)"))
            replacement.failures = late + replacement.failures
            return .replace(replacement)
        }
        let failures = self.takeOverdue(now: now)
        guard case .preparing(_, let deadline) = self.state, deadline <= now else { return .fail(failures) }
        let limit = self.limits.preparationDeadline.text
        var replacement = self.replace(
            because: RedisError(.connection, "preparing the connection: no answer in \(limit)"))
        replacement.failures = failures
        return .replace(replacement)
    }

    /// True if no request waits or is unanswered.
    var isIdle: Bool { self.waiting.isEmpty && self.unanswered.isEmpty }

    /// Returns the requests that are not written yet: they may go elsewhere.
    mutating func takeWaiting() -> [Request] {
        let taken = Array(self.waiting)
        self.waiting = []
        for entry in taken { self.release(entry) }
        return taken.map(\.request)
    }

    /// Closes the link permanently. Returns the requests that it still had.
    mutating func close() -> [Request] {
        self.state = .closed
        defer {
            self.unanswered = []
            self.waiting = []
            self.commands = 0
            self.bytes = 0
        }
        return self.unanswered.map(\.request) + self.waiting.map(\.request)
    }

    private static var closedError: RedisError { RedisError(.closed, "sending a command: the client is closed") }

    private mutating func replace(because error: RedisError) -> Replacement {
        self.state = .pausing
        self.failuresInARow = min(self.failuresInARow + 1, 1000)
        self.lastFailure = error
        let failures = self.takeUnanswered { _ in true }.map { ($0.request, error) }
        return Replacement(failures: failures, attempt: self.failuresInARow, cause: error)
    }

    private mutating func takeUnanswered(while condition: (Entry) -> Bool) -> [Entry] {
        let taken = Array(self.unanswered.prefix(while: condition))
        self.unanswered.removeFirst(taken.count)
        for entry in taken { self.release(entry) }
        return taken
    }

    private mutating func takeOverdue(now: NIODeadline) -> [Failure] {
        let overdue = Array(self.waiting.prefix { $0.deadline <= now })
        self.waiting.removeFirst(overdue.count)
        for entry in overdue { self.release(entry) }
        let limit = self.limits.commandDeadline.text
        let cause = self.lastFailure.map { " (\($0.message))" } ?? ""
        let error = RedisError(
            self.lastFailure?.code == .unsupported ? .unsupported : .connection,
            "waiting for a connection: none in \(limit)\(cause)")
        return overdue.map { ($0.request, error) }
    }

    private mutating func release(_ entry: Entry) {
        self.commands -= entry.commands
        self.bytes -= entry.bytes
    }
}

extension TimeAmount {
    /// In milliseconds, for messages.
    fileprivate var text: String { "\(self.nanoseconds / 1_000_000) ms" }
}
