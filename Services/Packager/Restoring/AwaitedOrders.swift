import Model
import Store
import Synchronization

/// Orders of one partition that cannot be packaged until their brands load.
struct AwaitedOrders: Hashable, Sendable {
    /// Of the first of them.
    let offset: Int64
    let types: Set<OrderTypeIdentifier>

    func merging(_ other: AwaitedOrders?) -> AwaitedOrders {
        guard let other else { return self }
        return AwaitedOrders(offset: min(self.offset, other.offset), types: self.types.union(other.types))
    }
}

/// Which brands a restoring waits for, so far as one packager has seen; by job.
///
/// Another packager may go on with a job, so what is told leaves out jobs that are done.
final class AwaitedBrands: Sendable {
    private let types = Mutex<[String: Set<OrderTypeIdentifier>]>([:])

    /// - Parameter awaited: of a job that was read to its end; nil if nothing of it waits.
    func note(_ awaited: AwaitedOrders?, of job: String) {
        self.types.withLock { $0[job] = awaited?.types }
    }

    /// The brands that jobs wait for which are not done, sorted.
    func labels(_ jobs: [RestoreBoard.Job]) -> [String] {
        let types = self.types.withLock { $0 }
        return Set(jobs.filter { !$0.isDone }.flatMap { types[$0.name] ?? [] }).map(\.rawValue).sorted()
    }
}
