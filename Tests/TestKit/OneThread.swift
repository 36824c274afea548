import Dispatch

/// Runs tasks on one thread, one after the other: a task gives way at its `await` only.
public final class OneThread: TaskExecutor {
    private let queue = DispatchQueue(label: "one thread")

    public init() {}

    public func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        self.queue.async { unsafe job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
