/// The first commands of a new connection, and the findings from their answers.
///
/// Pure: the answers are passed in one by one.
struct LinkPreparation: Hashable {
    /// The purpose of a link.
    enum Purpose: Hashable {
        /// The one server that was configured: its role matters, and it may turn out to belong to a cluster.
        case server
        /// A node of a cluster; the map says which slots it serves.
        case member
        /// A sentinel, asked for the master.
        case sentinel
    }

    /// One command and the meaning of its answer.
    enum Step: Hashable {
        case authenticate
        /// A sentinel often has no password though its servers have one.
        case authenticateIfWanted
        /// Detects a server that is still loading its data or requires a password.
        case ping
        case information
        case slots
        case select
    }

    /// The server's description of itself.
    struct Findings: Hashable, Sendable {
        /// Differs for another process, and for one that was promoted to master again; nil if the server does not
        /// report it.
        var serverIdentifier: String?
        var isReplica = false
        /// The answer to CLUSTER SLOTS if the server belongs to a cluster.
        var slots: RedisValue?
    }

    enum Verdict: Hashable {
        case more
        case ready
        /// The connection cannot be used.
        case refused(RedisError)
    }

    let steps: [Step]
    private(set) var findings = Findings()
    private var answered = 0
    private var isTooOld = false
    private let purpose: Purpose

    init(_ purpose: Purpose, steps: [Step]) {
        precondition(!steps.isEmpty, "a connection is used when a first answer has come")
        self.purpose = purpose
        self.steps = steps
    }

    /// Processes the next answer.
    mutating func received(_ reply: RedisValue) -> Verdict {
        guard self.answered < self.steps.count else {
            return .refused(RedisError(.protocol, "preparing the connection: one answer too many"))
        }
        let step = self.steps[self.answered]
        self.answered += 1
        if let refusal = self.receive(reply, of: step) {
            let code: RedisError.Code = self.isTooOld ? .unsupported : .connection
            return .refused(RedisError(code, "preparing the connection: \(refusal)"))
        }
        guard self.answered == self.steps.count else { return .more }
        guard self.purpose == .server, self.findings.slots == nil, self.findings.isReplica else { return .ready }
        // It may be older than data read or written before, and accepts no writes.
        return .refused(RedisError(.connection, "preparing the connection: the server is a replica"))
    }

    /// - Returns: the reason why the connection cannot be used, nil if it can.
    private mutating func receive(_ reply: RedisValue, of step: Step) -> String? {
        let error = reply.serverError?.message
        switch step {
        case .authenticate: return error
        case .authenticateIfWanted: return nil
        // NOPERM: a user that may not PING may still be allowed the commands that it is for.
        case .ping: return error?.hasPrefix("NOPERM") == true ? nil : error
        case .select:
            guard self.findings.slots == nil else { return "it belongs to a cluster, which has database 0 only" }
            return error
        case .slots:
            // An error: not a cluster, or a user without that permission.
            if case .array = reply { self.findings.slots = reply }
            return nil
        case .information:
            // An error: a user without that permission. READONLY is noticed anyway.
            guard error == nil else { return nil }
            guard case .string = reply, let text = reply.text else { return "an unexpected answer to INFO" }
            let information = RedisServerInformation(text)
            self.findings.serverIdentifier = information.identifier
            self.findings.isReplica = information.isReplica
            self.isTooOld = information.refusal != nil
            return information.refusal
        }
    }
}

extension RedisConfiguration {
    /// Returns the preparation of a connection.
    func preparation(for purpose: LinkPreparation.Purpose) -> LinkPreparation {
        var steps: [LinkPreparation.Step] = []
        if self.password != nil { steps.append(purpose == .sentinel ? .authenticateIfWanted : .authenticate) }
        steps.append(.ping)
        switch purpose {
        case .sentinel: break
        case .member: steps.append(.information)
        case .server:
            steps.append(.information)
            // Sentinels watch servers that belong to no cluster.
            if self.masterName == nil { steps.append(.slots) }
            if self.database != 0 { steps.append(.select) }
        }
        return LinkPreparation(purpose, steps: steps)
    }

    /// Source: Redis commands AUTH, PING, INFO, CLUSTER SLOTS, SELECT
    func command(for step: LinkPreparation.Step) -> RedisCommand {
        switch step {
        case .authenticate, .authenticateIfWanted: self.authentication ?? RedisCommand("PING")
        case .ping: RedisCommand("PING")
        case .information: RedisCommand("INFO")
        case .slots: RedisCommand("CLUSTER", "SLOTS")
        case .select: RedisCommand("SELECT", .integer(Int64(self.database)))
        }
    }
}
