import CRDKafka
import Dispatch
import Synchronization

/// The committing thread: commits finished records to the broker, one request at a time.
///
/// A commit that waits in librdkafka for a coordinator is given up after one session timeout, within which the group
/// does not assign our partitions to another member, so it cannot be sent under a later generation.
/// Source: librdkafka 2.0.2, rd_kafka_cgrp_defer_offset_commit
extension ConsumerThread {
    /// Commits until `endCommits`.
    func runCommits() {
        defer { self.commitsEnded.signal() }
        while true {
            switch self.state.withLock({ $0.nextCommit(now: .now) }) {
            case .commit(let request): self.commit(request)
            case .wait(let milliseconds, let resumptions):
                Self.answer(resumptions)
                // The polling thread may wait for a ticket that is served because there is nothing to commit.
                if self.state.withLock({ $0.isAsleep }) { self.wake.signal() }
                _ = self.commitWake.wait(timeout: .now() + .milliseconds(milliseconds))
            case .end: return
            }
        }
    }

    /// Waits until everything done so far is committed; returns false if that takes too long. For the polling thread,
    /// which keeps the group waiting meanwhile.
    func commitNow(within limit: Duration) -> Bool {
        let deadline = ContinuousClock.now + limit
        let ticket = self.state.withLock { $0.commits.request() }
        self.commitWake.signal()
        while true {
            let (isServed, isHopeless) = self.state.withLock { state in
                let (isServed, isHopeless) = (state.commits.served >= ticket, state.commits.isHopeless(ticket))
                state.setAsleep(!isServed && !isHopeless)
                return (isServed, isHopeless)
            }
            if isServed { return true }
            if isHopeless { return false }
            let left = deadline - .now
            if left <= .zero { return false }
            _ = self.wake.wait(timeout: .now() + .milliseconds(min(100, left.wholeMilliseconds)))
        }
    }

    /// Ends the committing thread.
    ///
    /// - Returns: false if it hangs in a request.
    func endCommits() -> Bool {
        Self.answer(self.state.withLock { $0.commits.finish() })
        self.commitWake.signal()
        return self.commitsEnded.wait(timeout: .now() + .seconds(3)) == .success
    }

    static func answer(_ resumptions: [CommitSchedule.Resumption]) {
        for (continuation, result) in resumptions { continuation.resume(returning: result) }
    }

    private func commit(_ request: CommitSchedule.Request) {
        var failure: KafkaError?
        self.onCommit?(.chosen(request.positions))
        do throws(KafkaError) {
            try self.send(request.positions)
            self.onCommit?(.acknowledged(request.positions))
        } catch {
            failure = error
        }
        let (resumptions, polls, isLogged) = self.state.withLock { state in
            let (resumptions, polls) = state.commitEnded(
                request, failure, jitter: Double.random(in: 0.5...1), now: .now)
            return (resumptions, polls, state.commits.isFailureLogged)
        }
        if let failure {
            if failure.isFatal { self.fail(failure) } else if isLogged { self.tell(failure) }
        }
        Self.answer(resumptions)
        if polls { self.wake.signal() }
    }

    private func send(_ positions: [KafkaPosition]) throws(KafkaError) {
        let list = try KafkaPositionList(positions)
        try unsafe self.handle.use { raw throws(KafkaError) in
            let code = try unsafe list.use { list throws(KafkaError) in unsafe rd_kafka_commit(raw, list, 0) }
            guard code == RD_KAFKA_RESP_ERR_NO_ERROR else {
                throw KafkaError(code, "committing \(positions.count) positions")
            }
        }
        for (position, code) in list.results where code != RD_KAFKA_RESP_ERR_NO_ERROR {
            throw KafkaError(code, "committing \(position.topic)/\(position.partition)@\(position.offset)")
        }
    }
}
