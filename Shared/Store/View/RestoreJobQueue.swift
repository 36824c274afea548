public import Model
import Redis

/// The jobs of a restore, shared by all packagers: each is assigned to one packager for the duration of its lease.
///
/// A worker that dies loses its lease, and its job continues at the last position noted. If the data in Redis is lost
/// again, the queue is lost with it and everything starts over.
public struct RestoreJobQueue: Sendable {
    private let view: MaterializedView
    private let key: String

    /// - Parameters:
    ///   - type: nil for the jobs of the whole view.
    ///   - cluster: the Kafka cluster of the jobs' offsets: a plan that continues with another one has other jobs.
    public init(_ view: MaterializedView, of type: OrderTypeIdentifier? = nil, in cluster: String = "") {
        self.view = view
        self.key = (type.map { StoreKeys.jobs($0) } ?? StoreKeys.jobs) + (cluster.isEmpty ? "" : ":\(cluster)")
    }

    /// One partition to be read.
    public struct Job: Hashable, Sendable {
        /// `<topic>/<partition>`
        public let name: String
        public var from: Int64
        /// The offset to end at.
        public var to: Int64
        /// The number of offsets that are done. Orders are read from the end of their partition backwards, so that the
        /// newest come first; registrations from the beginning.
        public var done: Int64 = 0
        public var isDone = false

        public init(name: String, from: Int64, to: Int64) {
            self.name = name
            self.from = max(0, from)
            self.to = max(self.from, to)
        }

        init?(name: String, _ value: String) {
            let parts = parts(value)
            guard parts.count == 5, let from = Int64(parts[0]), let to = Int64(parts[1]), let done = Int64(parts[2])
            else { return nil }
            self.init(name: name, from: from, to: to)
            self.done = done
            self.isDone = parts[4] == "done"
        }

        var text: String { "\(self.from):\(self.to):\(self.done):0:\(self.isDone ? "done" : "")" }
    }

    /// The result of a claim.
    public enum Claim: Hashable, Sendable {
        case job(Job)
        /// All open jobs are assigned to others.
        case wait
        /// Nothing is open.
        case allDone
        /// The plan is not active any more.
        case over
    }

    /// Adds the jobs of the plan, unless they exist already.
    public func note(_ jobs: [Job], of plan: String) async throws(StoreError) {
        _ = try await self.view.run(
            [
                RedisInvocation(
                    StoreScripts.noteJobs, keys: [self.key],
                    arguments: [.string(plan)] + jobs.flatMap { [.string($0.name), .string($0.text)] })
            ], "noting jobs")
    }

    /// Returns the jobs of a plan; nil if there are none.
    public func jobs(of plan: String) async throws(StoreError) -> [Job]? {
        let reply: RedisValue
        do {
            reply = try await self.view.redis.send(RedisCommand("HGETALL", .string(self.key)))
        } catch {
            throw StoreError("reading jobs", error)
        }
        let values = (reply.array ?? []).map { $0.text ?? "" }
        var found: String?
        var jobs: [Job] = []
        for index in stride(from: 0, to: values.count - 1, by: 2) {
            if values[index] == "plan" {
                found = values[index + 1]
            } else if let job = Job(name: values[index], values[index + 1]) {
                jobs.append(job)
            }
        }
        return found == plan ? jobs : nil
    }

    /// Claims the job with the least progress.
    ///
    /// - Parameters:
    ///   - owner: letters and digits, unique.
    ///   - topic: its jobs are done before any other begins; empty for none.
    public func claim(
        of plan: String, by owner: String, lease: Duration, first topic: String = ""
    ) async throws(StoreError) -> Claim {
        let reply = try await self.view.run(
            [
                RedisInvocation(
                    StoreScripts.claimJob, keys: [self.key],
                    arguments: [
                        .string(plan), .string(owner), .integer(lease.wholeMilliseconds), .string("\(topic)/"),
                    ])
            ], "claiming a job"
        ).first
        if let count = reply?.integer { return count < 0 ? .over : count == 0 ? .allDone : .wait }
        guard let parts = reply?.array, parts.count == 4, let name = parts[0].text, let from = parts[1].integer,
            let to = parts[2].integer, let done = parts[3].integer
        else { throw StoreError(.unavailable, "claiming a job: an unexpected reply") }
        var job = Job(name: name, from: from, to: to)
        job.done = done
        return .job(job)
    }

    /// Notes the progress of a job, and renews its lease.
    ///
    /// - Returns: false if another owner has it by now, or the plan is over: stop working on it.
    public func keep(_ job: Job, of plan: String, by owner: String, lease: Duration) async throws(StoreError) -> Bool {
        try await self.note(job, plan, owner, lease, then: job.isDone ? "done" : owner)
    }

    /// Returns a job, to be continued after a pause.
    public func giveBack(_ job: Job, of plan: String, by owner: String, pause: Duration) async throws(StoreError) {
        _ = try await self.note(job, plan, owner, pause, then: "")
    }

    /// Forgets a plan that is over.
    public func forget(_ plan: String) async throws(StoreError) {
        _ = try await self.view.run(
            [RedisInvocation(StoreScripts.forgetJobs, keys: [self.key], arguments: [.string(plan)])],
            "forgetting jobs")
    }

    private func note(
        _ job: Job, _ plan: String, _ owner: String, _ lease: Duration, then next: String
    ) async throws(StoreError) -> Bool {
        let reply = try await self.view.run(
            [
                RedisInvocation(
                    StoreScripts.noteJob, keys: [self.key],
                    arguments: [
                        .string(plan), .string(job.name), .string(owner), .integer(job.done), .integer(job.to),
                        .integer(lease.wholeMilliseconds), .string(next), .integer(job.from),
                    ])
            ], "noting a job")
        return reply.first?.integer == 1
    }
}
