import CCurl
import Glibc
import Synchronization

/// What callers hand to the thread, and how they wake it.
final class FetchQueue: Sendable {
    private struct State {
        var nextTicket: UInt64 = 0
        var waiting: [FetchJob] = []
        /// Given out and not ended.
        var live: Set<UInt64> = []
        /// Of those that live: before, while or after the job came here.
        var cancelled: Set<UInt64> = []
        var isClosed = false
        var hasEnded = false
        var enders: [CheckedContinuation<Void, Never>] = []
    }

    /// What the thread takes.
    struct Work {
        var jobs: [FetchJob] = []
        var cancelled: Set<UInt64> = []
        var isClosed = false
    }

    private let state = Mutex(State())
    private let limit: Int
    /// An eventfd that is readable when there is work; open as long as this object lives.
    let descriptor: Int32

    init(limit: Int) throws(FetchError) {
        self.limit = limit
        self.descriptor = eventfd(0, Int32(EFD_NONBLOCK | EFD_CLOEXEC))
        guard self.descriptor >= 0 else { throw FetchError(.library, "making an eventfd: error \(errno)") }
    }

    deinit { Glibc.close(self.descriptor) }

    /// A number for a job to come.
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

    /// Ends a job that stands in no queue any more.
    func finish(_ job: FetchJob, _ result: Result<FetchResponse, FetchError>) {
        self.state.withLock { state in
            state.live.remove(job.ticket)
            state.cancelled.remove(job.ticket)
        }
        job.continuation.resume(returning: result)
    }

    func close() {
        self.state.withLock { $0.isClosed = true }
        self.wake()
    }

    func closeAndWait() async {
        self.close()
        await withCheckedContinuation { continuation in
            let hasEnded = self.state.withLock { state in
                if !state.hasEnded { state.enders.append(continuation) }
                return state.hasEnded
            }
            if hasEnded { continuation.resume() }
        }
    }

    /// For the thread: what is to be done now.
    ///
    /// - Parameter room: how many more jobs it takes; what is cancelled or too late comes out of turn.
    func take(room: Int, now: ContinuousClock.Instant) -> Work {
        self.drain()
        return self.state.withLock { state in
            let count = state.isClosed ? state.waiting.count : min(max(room, 0), state.waiting.count)
            var jobs = Array(state.waiting.prefix(count))
            state.waiting.removeFirst(count)
            let isOver = { (job: FetchJob) in state.cancelled.contains(job.ticket) || job.deadline <= now }
            jobs += state.waiting.filter(isOver)
            state.waiting.removeAll(where: isOver)
            return Work(jobs: jobs, cancelled: state.cancelled, isClosed: state.isClosed)
        }
    }

    /// For the thread: it takes nothing any more.
    func end() {
        let enders = self.state.withLock { state in
            state.hasEnded = true
            defer { state.enders = [] }
            return state.enders
        }
        for ender in enders { ender.resume() }
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
