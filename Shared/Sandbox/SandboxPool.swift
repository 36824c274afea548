import Synchronization

/// Children that share the work, and one more that is ready to take the place of one that ends.
///
/// A child works for one owner all its life, so one that is taken over has nothing of another. With more owners than
/// children, the place of an idle one is taken. Each child has a state of the caller's, such as what it was told.
/// Bounded: `count` and the spare. Callers wait in the sequence in which they come.
public final class SandboxPool<State: Sendable>: Sendable {
    private struct Member {
        let owner: String
        let worker: SandboxWorker
        var state: State
    }

    private struct Caller {
        let owner: String
        let continuation: CheckedContinuation<Member?, Never>
    }

    private struct Members {
        /// The one that has been idle for the longest time first.
        var idle: [Member] = []
        /// Places without a child.
        var free: Int
        var spare: SandboxWorker?
        var waiting: [Caller] = []
        var isClosed = false
    }

    private let sandbox: Sandbox
    private let fresh: @Sendable () -> State
    private let members: Mutex<Members>

    /// - Parameter fresh: makes the state of a new child.
    public init(_ sandbox: Sandbox, count: Int, fresh: @escaping @Sendable () -> State) {
        self.sandbox = sandbox
        self.fresh = fresh
        self.members = Mutex(Members(free: count))
    }

    /// Starts the spare child, and waits until it is ready; the others are started when they are needed.
    ///
    /// - Throws: `SandboxError` if there can be none.
    public func start() async throws(SandboxError) {
        let worker = SandboxWorker(self.sandbox)
        _ = try await worker.ready()
        self.members.withLock { $0.spare = worker }
    }

    /// Calls `body` with a child that nobody else uses meanwhile.
    ///
    /// - Parameter body: returns false beside its result if the child has ended.
    public func with<Value>(
        _ owner: String, _ body: (SandboxWorker, inout State) async -> (isAlive: Bool, value: Value)
    ) async -> Value {
        var member = await self.take(owner)
        let (isAlive, value) = await body(member.worker, &member.state)
        await self.give(back: member, isAlive)
        return value
    }

    /// Ends all children, those in use after their work.
    public func close() async {
        let workers = self.members.withLock { members in
            members.isClosed = true
            members.free += members.idle.count
            defer { (members.idle, members.spare) = ([], nil) }
            return members.idle.map(\.worker) + (members.spare.map { [$0] } ?? [])
        }
        for worker in workers { await worker.close() }
    }

    private func take(_ owner: String) async -> Member {
        let (known, retired, isFree) = self.members.withLock { members -> (Member?, Member?, Bool) in
            if let index = members.idle.lastIndex(where: { $0.owner == owner }) {
                return (members.idle.remove(at: index), nil, false)
            }
            if members.free > 0 {
                members.free -= 1
                return (nil, nil, true)
            }
            return (nil, members.idle.isEmpty ? nil : members.idle.removeFirst(), false)
        }
        if let known { return known }
        if let retired { await retired.worker.close() }
        if retired != nil || isFree { return self.child(of: owner) }
        let given = await withCheckedContinuation { continuation in
            let isLate = self.members.withLock { members in
                // One was given back meanwhile.
                guard members.idle.isEmpty, members.free == 0 else { return true }
                members.waiting.append(Caller(owner: owner, continuation: continuation))
                return false
            }
            if isLate { continuation.resume(returning: nil) }
        }
        if let given { return given }
        return await self.take(owner)
    }

    /// Returns a child to the caller that has waited for the longest time. A child of another owner leaves its place.
    private func give(back member: Member, _ isAlive: Bool) async {
        let (next, isKept) = self.members.withLock { members -> (Caller?, Bool) in
            if let caller = members.waiting.first {
                members.waiting.removeFirst()
                return (caller, isAlive && caller.owner == member.owner)
            }
            guard isAlive, !members.isClosed else {
                members.free += 1
                return (nil, false)
            }
            members.idle.append(member)
            return (nil, true)
        }
        if !isKept { await member.worker.close() }
        if let next { next.continuation.resume(returning: isKept ? member : self.child(of: next.owner)) }
    }

    /// Returns the spare child, and starts another one in its place.
    private func child(of owner: String) -> Member {
        let next = SandboxWorker(self.sandbox)
        let worker = self.members.withLock { members in
            guard let spare = members.spare, !members.isClosed else { return next }
            members.spare = next
            return spare
        }
        return Member(owner: owner, worker: worker, state: self.fresh())
    }
}
