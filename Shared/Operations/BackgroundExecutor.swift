import Dispatch

/// An executor that runs tasks on separate threads, one for each core, so that work that no customer waits for does not
/// queue ahead of work that a customer waits for: the kernel shares the cores among both.
///
/// A priority does not do that: a child task takes the priority of the parent that waits for it.
/// Thread: any. Bounded: by the tasks that prefer it.
public final class BackgroundExecutor: TaskExecutor {
    public static let shared = BackgroundExecutor()

    private init() {}

    public func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        DispatchQueue.global(qos: .utility).async { unsafe job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
