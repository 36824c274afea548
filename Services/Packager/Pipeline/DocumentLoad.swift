import CoreMetrics
import Synchronization

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
