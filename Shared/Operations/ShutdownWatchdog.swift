import Dispatch
import Glibc
import Kafka
import Logging
import ServiceLifecycle

/// A watchdog that ends the process if its services do not end in time.
///
/// A service that is asked to end, and later cancelled, may still never do so: a library that hangs while it closes
/// (librdkafka before 2.1.0 when a partition was lost, CHANGELOG #4187), or a thread that never returns. Records that
/// are not committed by then are delivered again to another member, so nothing is lost by exiting.
///
/// Owner: the service group, which stops this one first. Thread: one of its own from the beginning of the shutdown, as
/// those of the pool may be the ones that hang. Bounded: by the limit.
struct ShutdownWatchdog: Service {
    /// Time from the beginning of the shutdown.
    let limit: Duration
    let logger: Logger
    let end: @Sendable () -> Void

    /// - Parameter end: ends the process; `_exit`, since handlers and destructors may hang as well.
    init(limit: Duration, logger: Logger, end: @escaping @Sendable () -> Void = { _exit(1) }) {
        self.limit = limit
        self.logger = logger
        self.end = end
    }

    /// Returns the time after which services are cancelled: the rest of the limit is left for them to end.
    static func patience(of limit: Duration) -> Duration { limit - min(.seconds(2), limit / 10) }

    func run() async throws {
        // Cancellation also begins the shutdown: another service failed.
        try? await gracefulShutdown()
        let (limit, logger, end) = (self.limit, self.logger, self.end)
        try KafkaThread.start("shutdown") {
            let wait = DispatchTimeInterval.milliseconds(Int(limit / .milliseconds(1)))
            _ = DispatchSemaphore(value: 0).wait(timeout: .now() + wait)
            logger.critical("shutdown timed out, exiting", metadata: ["limit": "\(limit)"])
            end()
        }
    }
}
