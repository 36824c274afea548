import CCurl
import Glibc
import Synchronization

/// The queue of jobs from callers to the thread, with its wake-up.
final class FetchQueue: Sendable {
    private struct State {
        var nextTicket: UInt64 = 0
        var waiting: [FetchJob] = []
        /// Tickets issued and not finished.
        var live: Set<UInt64> = []
        /// The live tickets whose job was cancelled before, while or after it was queued.
        var cancelled: Set<UInt64> = []
        /// The results of look-ups that have ended.
        var lookups: [(host: String, result: NameLookups.Result)] = []
        var isClosed = false
        var hasEnded = false
        /// Called once the thread has ended.
        var enders: [@Sendable () -> Void] = []
    }

    /// The work that the thread receives.
    struct Work {
        var jobs: [FetchJob] = []
        var cancelled: Set<UInt64> = []
        var lookups: [(host: String, result: NameLookups.Result)] = []
        var isClosed = false
    }

    private let state = Mutex(State())
    private let limit: Int
    /// An eventfd that is readable when there is work; open for the lifetime of this object.
    let descriptor: Int32

    init(limit: Int) throws(FetchError) {
        self.limit = limit
        self.descriptor = eventfd(0, Int32(EFD_NONBLOCK | EFD_CLOEXEC))
        guard self.descriptor >= 0 else { throw FetchError(.library, "making an eventfd: error \(errno)") }
    }

    deinit { Glibc.close(self.descriptor) }

    /// Issues a number for a future job.
    func ticket() -> UInt64 {
        self.state.withLock { state in
            state.nextTicket += 1
            state.live.insert(state.nextTicket)
            return state.nextTicket
        }
    }

    func submit(_ job: FetchJob) {
        let refusal: FetchError? = self.state.withLock { state in
            if state.cancelled.contains(job.ticket) { return FetchError(.cancelled, "fetching: cancelled") }
            if state.isClosed { return FetchError(.closed, "fetching: the fetcher is closed") }
            guard state.waiting.count < self.limit else {
                return FetchError(.busy, "fetching: \(self.limit) requests wait already")
            }
            state.waiting.append(job)
            return nil
        }
        if let refusal { self.finish(job, .failure(refusal)) } else { self.wake() }
    }

    func cancel(_ ticket: UInt64) {
        self.state.withLock { state in
            if state.live.contains(ticket) { state.cancelled.insert(ticket) }
        }
        self.wake()
    }

    /// Ends a job that is no longer in any queue.
    func finish(_ job: FetchJob, _ result: Result<FetchResponse, FetchError>) {
        self.state.withLock { state in
            state.live.remove(job.ticket)
            state.cancelled.remove(job.ticket)
        }
        job.continuation.resume(returning: result)
    }

    /// Passes the result of a look-up to the thread.
    func lookedUp(_ host: String, _ result: NameLookups.Result) {
        self.state.withLock { $0.lookups.append((host, result)) }
        self.wake()
    }

    func close() {
        self.state.withLock { $0.isClosed = true }
        self.wake()
    }

    func closeAndWait() async {
        self.close()
        await withCheckedContinuation { continuation in self.whenEnded { continuation.resume() } }
    }

    /// Calls `body` once the thread has ended.
    func whenEnded(_ body: @escaping @Sendable () -> Void) {
        let hasEnded = self.state.withLock { state in
            if !state.hasEnded { state.enders.append(body) }
            return state.hasEnded
        }
        if hasEnded { body() }
    }

    /// Returns the work that is due; called by the thread.
    ///
    /// - Parameter room: the number of further jobs that it has room for; cancelled and expired jobs are returned out
    ///   of turn.
    func take(room: Int, now: ContinuousClock.Instant) -> Work {
        self.drain()
        return self.state.withLock { state in
            let count = state.isClosed ? state.waiting.count : min(max(room, 0), state.waiting.count)
            var jobs = Array(state.waiting.prefix(count))
            state.waiting.removeFirst(count)
            let isOver = { (job: FetchJob) in state.cancelled.contains(job.ticket) || job.deadline <= now }
            jobs += state.waiting.filter(isOver)
            state.waiting.removeAll(where: isOver)
            defer { state.lookups = [] }
            return Work(
                jobs: jobs, cancelled: state.cancelled, lookups: state.lookups, isClosed: state.isClosed)
        }
    }

    /// Tells that the thread has ended; called by the thread when it accepts nothing more.
    func end() {
        let enders = self.state.withLock { state in
            state.hasEnded = true
            defer { state.enders = [] }
            return state.enders
        }
        for ender in enders { ender() }
    }

    private func wake() {
        // Fails only when the counter is full, and then it is readable already. Source: eventfd(2)
        _ = eventfd_write(self.descriptor, 1)
    }

    private func drain() {
        var count: eventfd_t = 0
        _ = unsafe eventfd_read(self.descriptor, &count)
    }
}
