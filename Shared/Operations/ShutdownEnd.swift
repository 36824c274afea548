import Foundation
import Glibc
import Logging
import ServiceLifecycle

/// Ends the process if its services do not end in time.
///
/// A service that is told to end, and later cancelled, may all the same never do so: a library that hangs while it
/// closes (librdkafka before 2.1.0 when a partition was lost, CHANGELOG #4187), or a thread that never comes back. What
/// is not committed by then comes again to somebody, so nothing is lost by leaving it.
///
/// Owner: the service group, which is to stop this one first. Thread: one of its own from the beginning of the end on,
/// as those of the pool may be what hangs. Bounded: by the limit.
struct ShutdownEnd: Service {
    /// From the beginning of the end.
    let limit: Duration
    let logger: Logger
    let end: @Sendable () -> Void

    /// - Parameter end: what ends the process; `_exit`, since handlers and destructors may hang as well.
    init(limit: Duration, logger: Logger, end: @escaping @Sendable () -> Void = { _exit(1) }) {
        self.limit = limit
        self.logger = logger
        self.end = end
    }

    /// When services are cancelled: a part of the limit is left for them to end after that.
    static func patience(of limit: Duration) -> Duration { limit - min(.seconds(2), limit / 10) }

    func run() async throws {
        // Cancelled, it is the end as well: another service failed.
        try? await gracefulShutdown()
        let (limit, logger, end) = (self.limit, self.logger, self.end)
        Thread.detachNewThread {
            let wait = DispatchTimeInterval.milliseconds(Int(limit / .milliseconds(1)))
            _ = DispatchSemaphore(value: 0).wait(timeout: .now() + wait)
            logger.critical("not stopped in time, given up", metadata: ["limit": "\(limit)"])
            end()
        }
    }
}
