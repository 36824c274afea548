import Dispatch
import Synchronization

/// One thread and a bounded queue of blocking calls for it.
///
/// Blocking C calls must not run on Swift's cooperative threads. Jobs run one at a time, in order.
final class BlockingExecutor: Sendable {
    /// The most jobs that may wait; further ones are refused.
    static let limit = 1024

    private struct State {
        var jobs: [@Sendable () -> Void] = []
        var ended = false
    }

    private let state = Mutex(State())
    private let wake = DispatchSemaphore(value: 0)

    init(name: String) throws(KafkaError) {
        try KafkaThread.start(name) { self.serve() }
    }

    /// Runs `job` on the thread and waits for it, even in a cancelled task: the job itself is bounded.
    ///
    /// - Throws: any error of `job`; `.closed` after `end()`; `.queueFull` if 1024 jobs wait.
    func run<Value: Sendable>(
        _ job: @escaping @Sendable () throws(KafkaError) -> Value
    ) async throws(KafkaError) -> Value {
        let result: Result<Value, KafkaError> = await withCheckedContinuation { continuation in
            let refusal: KafkaError? = self.state.withLock { state in
                if state.ended { return KafkaError(.closed, "asking a closed handle") }
                if state.jobs.count >= Self.limit {
                    return KafkaError(.queueFull, "asking: \(Self.limit) calls wait", isRetriable: true)
                }
                state.jobs.append {
                    do throws(KafkaError) {
                        continuation.resume(returning: .success(try job()))
                    } catch {
                        continuation.resume(returning: .failure(error))
                    }
                }
                return nil
            }
            if let refusal { continuation.resume(returning: .failure(refusal)) } else { self.wake.signal() }
        }
        return try result.get()
    }

    /// Lets the thread finish the waiting jobs, run `last` and end. Later jobs are refused.
    ///
    /// - Returns: false if the line was ended before; `last` is then dropped.
    @discardableResult
    func end(_ last: @escaping @Sendable () -> Void = {}) -> Bool {
        let isFirst = self.state.withLock { state in
            if state.ended { return false }
            state.jobs.append(last)
            state.ended = true
            return true
        }
        if isFirst { self.wake.signal() }
        return isFirst
    }

    private func serve() {
        while true {
            self.wake.wait()
            while let job = self.state.withLock({ $0.jobs.isEmpty ? nil : $0.jobs.removeFirst() }) { job() }
            if self.state.withLock({ $0.ended && $0.jobs.isEmpty }) { return }
        }
    }
}
