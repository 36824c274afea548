import CoreMetrics
import FoundationEssentials
import Operations
import Synchronization

/// Calls `body` for each item, spread over all cores, and returns the results in order.
///
/// Many items are processed on threads other than those of the remaining work, which need not wait for them.
/// - Throws: the error of the first item that has one, after all were tried.
func onAllCores<Item: Sendable, Value: Sendable, Failure: Error>(
    _ items: [Item], _ body: @escaping @Sendable (Item) throws(Failure) -> Value
) async throws(Failure) -> [Value] {
    guard items.count > 1 else { return try items.map(body) }
    let tasks = min(ProcessInfo.processInfo.activeProcessorCount, items.count)
    let results = await withTaskGroup(of: [(Int, Result<Value, Failure>)].self) { group in
        for first in 0..<tasks {
            group.addTask(executorPreference: items.count > few ? BackgroundExecutor.shared : nil) {
                var results: [(Int, Result<Value, Failure>)] = []
                for index in stride(from: first, to: items.count, by: tasks) {
                    results.append((index, Result { () throws(Failure) in try body(items[index]) }))
                }
                return results
            }
        }
        return await group.reduce(into: []) { $0 += $1 }.sorted { $0.0 < $1.0 }.map(\.1)
    }
    return try results.map { (result) throws(Failure) in try result.get() }
}

/// The number of items that take at most a few milliseconds.
private let few = 32

/// Counts the bytes of stored documents that are in memory, of all batches in work.
final class DocumentLoad: Sendable {
    private struct Bytes {
        var now = 0
        var most = 0
    }

    private let bytes = Mutex(Bytes())
    private let gauge: Gauge

    /// - Parameter gauge: follows the count.
    init(_ gauge: Gauge) { self.gauge = gauge }

    /// The most that was in memory at once.
    var most: Int { self.bytes.withLock { $0.most } }

    /// - Parameter count: negative for documents that are released.
    func add(_ count: Int) {
        let now = self.bytes.withLock { bytes in
            bytes.now += count
            bytes.most = max(bytes.most, bytes.now)
            return bytes.now
        }
        self.gauge.record(now)
    }
}
