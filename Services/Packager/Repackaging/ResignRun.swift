import Logging
import Model
import Operations
import ServiceLifecycle
import Store
import Synchronization

/// Goes through all stored orders of one brand and repackages those that do not match the present brand.
///
/// May run alongside the fleet, any number of times: orders that are done are skipped. A graceful shutdown ends it
/// after the orders in hand. Its progress is in Redis, where the next run continues, even after a kill.
final class ResignRun: Service {
    /// The result of a run.
    enum End: Hashable, Sendable {
        case done(ResignProgress)
        /// Stopped on request; the next run continues.
        case stopped(ResignProgress)
        /// Redis or Kafka stayed unavailable; the next run continues.
        case gaveUp(String)
    }

    /// Orders that are packaged together.
    private static let chunk = 50
    /// The most attempts at an operation that fails upstream: some 20 s in all.
    private static let attemptLimit = 10
    /// The most refused and postponed orders that are named in the log.
    private static let namedLimit = 100

    /// The choice of packages, and the rate.
    struct Options: Hashable, Sendable {
        /// Packages a second.
        var rate = 200
        var evenIfCurrent = false
        var isDryRun = false
    }

    private let type: OrderTypeIdentifier
    private let purpose: String
    private let options: Options
    private let scan: OrderScan
    private let repackager: OrderRepackager
    private let logger: Logger
    /// Called with each step, for people.
    private let report: @Sendable (_ line: String, _ isLast: Bool) -> Void
    private let outcome = Mutex<End?>(nil)
    private let clock = ContinuousClock()

    /// - Parameter purpose: names the state that orders are brought to, such as `Brand.stamp`.
    init(
        _ type: OrderTypeIdentifier, purpose: String, options: Options, scan: OrderScan, repackager: OrderRepackager,
        logger: Logger, report: @escaping @Sendable (_ line: String, _ isLast: Bool) -> Void
    ) {
        self.type = type
        self.purpose = options.evenIfCurrent ? "all \(purpose)" : purpose
        self.options = options
        self.scan = scan
        self.repackager = repackager
        self.logger = logger
        self.report = report
    }

    /// The result of the run; nil while it continues, and if it failed altogether.
    var end: End? { self.outcome.withLock { $0 } }

    func run() async throws {
        let end: End
        do {
            end = try await self.work()
        } catch let error where Self.isUpstream(error) {
            end = .gaveUp("\(error)")
        }
        self.outcome.withLock { $0 = end }
    }

    private func work() async throws -> End {
        let start = self.clock.now
        var progress = try await self.begin()
        let before = progress.done
        var pace = RateLimiter(perSecond: self.options.rate)
        var named = 0
        func line() -> String {
            let elapsed = (self.clock.now - start) / .seconds(1)
            return progress.line(sinceStart: (progress.done - before, elapsed))
        }
        while true {
            let page = try await self.insist { try await self.scan.page(of: self.type, from: progress.cursor) }
            // Kept separately, so that a page that is processed again after a stop is not counted twice.
            let committed = progress
            for first in stride(from: 0, to: page.orders.count, by: Self.chunk) {
                guard !Task.isShuttingDownGracefully, !Task.isCancelled else {
                    self.report(line(), true)
                    return .stopped(committed)
                }
                let keys = Array(page.orders[first..<min(first + Self.chunk, page.orders.count)])
                let outcomes = try await self.insist {
                    try await self.repackager.repackage(
                        keys, evenIfCurrent: self.options.evenIfCurrent, isDryRun: self.options.isDryRun)
                }
                for (key, outcome) in zip(keys, outcomes) {
                    progress.count(outcome)
                    guard let (what, reason) = outcome.complaint, named < Self.namedLimit else { continue }
                    named += 1
                    self.logger.warning("order \(what)", metadata: ["order": "\(key)", "reason": "\(reason)"])
                }
                // The very last line is reported when the run is done.
                if page.next != nil || first + Self.chunk < page.orders.count { self.report(line(), false) }
                let work = outcomes.count { $0 != .current && $0 != .absent }
                let wait = pace.wait(after: work, now: self.clock.now - start)
                // Ends immediately on a graceful shutdown; the guard above does the rest.
                try? await cancelWhenGracefulShutdown { try await Task.sleep(for: wait) }
            }
            progress.cursor = page.next
            guard page.next != nil else { break }
            guard !self.options.isDryRun else { continue }
            let bookmark = progress.encoded
            try await self.insist { try await self.scan.keep(bookmark, of: self.type) }
            guard !Task.isShuttingDownGracefully, !Task.isCancelled else {
                self.report(line(), true)
                return .stopped(progress)
            }
        }
        if !self.options.isDryRun { try await self.insist { try await self.scan.forget(self.type) } }
        self.report(line(), true)
        return .done(progress)
    }

    /// Continues the last run of the same purpose, or counts the orders and begins.
    private func begin() async throws -> ResignProgress {
        let server = try await self.insist { try await self.scan.serverIdentifier() }
        if !self.options.isDryRun,
            let bookmark = try await self.insist({ try await self.scan.bookmark(of: self.type) }),
            let progress = ResignProgress(bookmark, purpose: self.purpose, server: server)
        {
            self.logger.info("resuming an earlier run", metadata: ["done": "\(progress.done)"])
            return progress
        }
        var total = 0
        var cursor: String?
        repeat {
            let page = try await self.insist { [cursor] in try await self.scan.page(of: self.type, from: cursor) }
            total += page.orders.count
            cursor = page.next
        } while cursor != nil && !Task.isShuttingDownGracefully && !Task.isCancelled
        return ResignProgress(purpose: self.purpose, server: server, total: total)
    }

    /// Retries an operation that fails upstream.
    private func insist<Value: Sendable>(_ body: () async throws -> Value) async throws -> Value {
        var attempt = 0
        while true {
            do {
                return try await body()
            } catch let error where Self.isUpstream(error) {
                attempt += 1
                guard attempt < Self.attemptLimit, !Task.isShuttingDownGracefully else { throw error }
                let delay = backoff(attempt: attempt, random: { Double.random(in: $0) })
                self.logger.warning(
                    "operation failed, retrying", metadata: ["error": "\(error)", "delay": "\(delay)"])
                try? await cancelWhenGracefulShutdown { try await Task.sleep(for: delay) }
            }
        }
    }

    private static func isUpstream(_ error: any Error) -> Bool {
        (error as? any UpstreamFailure)?.origin.passes ?? false
    }
}
