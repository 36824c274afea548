import CCurl

/// The work of the fetcher's thread: takes jobs, drives their transfers, follows redirects, answers.
final class FetchLoop {
    private let queue: FetchQueue
    private let configuration: FetcherConfiguration
    /// The transfers in progress.
    private var running: [EasyHandle.Identity: Transfer] = [:]

    /// The longest wait, so that jobs in the queue time out promptly.
    private static let tickMilliseconds: Int32 = 250

    init(_ queue: FetchQueue, _ configuration: FetcherConfiguration) {
        self.queue = queue
        self.configuration = configuration
    }

    /// Runs until the queue is closed and every job has an answer.
    ///
    /// A multi handle that fails is replaced, and its transfers end; one that fails at once ends the loop.
    func run() {
        do throws(FetchError) {
            while try self.runOnce() {}
        } catch {
            self.refuseWaiting(error)
        }
        self.queue.end()
    }

    /// Runs with one multi handle; returns true if it failed after it had worked.
    private func runOnce() throws(FetchError) -> Bool {
        let multi = try MultiHandle(connections: self.configuration.concurrency)
        var hasWorked = false
        do throws(FetchError) {
            while try self.turn(multi) { hasWorked = true }
            return false
        } catch {
            self.drop(multi, error) { _ in true }
            guard hasWorked else { throw error }
            return true
        }
    }

    /// Does one round; returns false if it was the last.
    private func turn(_ multi: borrowing MultiHandle) throws(FetchError) -> Bool {
        let now = ContinuousClock.now
        let work = self.queue.take(room: self.configuration.concurrency - self.running.count, now: now)
        guard !work.isClosed else {
            let error = FetchError(.closed, "fetching: the fetcher was closed")
            for job in work.jobs { self.queue.finish(job, .failure(error)) }
            self.stop(multi, error)
            return false
        }
        for job in work.jobs {
            if work.cancelled.contains(job.ticket) {
                self.queue.finish(job, .failure(Self.cancelled))
            } else if job.deadline <= now {
                let error = FetchError(.timeout, "fetching from \(job.url.origin.host): waited too long for a place")
                self.queue.finish(job, .failure(error))
            } else {
                self.begin(job, multi, now)
            }
        }
        if !work.cancelled.isEmpty {
            self.drop(multi, Self.cancelled) { work.cancelled.contains($0.ticket) }
        }
        try multi.perform()
        var isIdle = true
        while let done = multi.nextDone() {
            isIdle = false
            self.hopEnded(done.easy, done.code, multi)
        }
        if isIdle { try multi.wait(descriptor: self.queue.descriptor, milliseconds: Self.tickMilliseconds) }
        return true
    }

    private static let cancelled = FetchError(.cancelled, "fetching: cancelled")

    private func begin(_ job: FetchJob, _ multi: borrowing MultiHandle, _ now: ContinuousClock.Instant) {
        do throws(FetchError) {
            let transfer = try Transfer(job, self.configuration, now: now)
            try multi.add(transfer.easy)
            self.running[transfer.easy.identity] = transfer
        } catch {
            self.queue.finish(job, .failure(error))
        }
    }

    private func hopEnded(_ easy: EasyHandle.Identity, _ code: CURLcode, _ multi: borrowing MultiHandle) {
        guard let transfer = self.takeOut(easy, multi) else { return }
        switch transfer.step(after: code) {
        case .done(let response): self.queue.finish(transfer.job, .success(response))
        case .failed(let error): self.queue.finish(transfer.job, .failure(error))
        case .redirect(let url):
            var job = transfer.job
            job.url = url
            job.redirects += 1
            self.begin(job, multi, .now)
        }
    }

    /// Removes a transfer from libcurl; none of its callbacks runs after that.
    private func takeOut(_ easy: EasyHandle.Identity, _ multi: borrowing MultiHandle) -> Transfer? {
        guard let transfer = self.running.removeValue(forKey: easy) else { return nil }
        multi.remove(transfer.easy)
        return transfer
    }

    /// Ends the transfers of some jobs. Each caller learns if its request may have been sent.
    private func drop(_ multi: borrowing MultiHandle, _ error: FetchError, where matches: (FetchJob) -> Bool) {
        for (easy, transfer) in self.running where matches(transfer.job) {
            var error = error
            error.mayHaveBeenSent = transfer.easy.mayHaveSent
            _ = self.takeOut(easy, multi)
            self.queue.finish(transfer.job, .failure(error))
        }
    }

    private func stop(_ multi: borrowing MultiHandle, _ error: FetchError) {
        self.refuseWaiting(error)
        self.drop(multi, error) { _ in true }
    }

    private func refuseWaiting(_ error: FetchError) {
        self.queue.close()
        for job in self.queue.take(room: 0, now: .now).jobs { self.queue.finish(job, .failure(error)) }
    }
}
