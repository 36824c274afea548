import Logging
import Model
import Operations
import Synchronization

/// The pusher's reports to the log and to readiness: a line when a condition begins and an occasional one while it
/// lasts, and one when a credential recovers; never one for each notification.
///
/// Bounded: one entry for each upstream, for each brand, and for each reason of `PushCounts`.
final class PusherLog: Sendable {
    /// A service that a pusher needs, and can do without for a while.
    enum Upstream: String, Hashable, Sendable, CaseIterable {
        /// Redis, for lookups of registrations.
        case lookups
        /// Redis and Kafka, for the effects of verdicts, such as removed registrations and dead letters.
        case followUps
        /// Kafka, for keys that move to the pending topic and back.
        case pending
    }

    private struct Outage {
        let since: MonotonicTime
        var loggedAt: MonotonicTime
        var isReported = false
    }

    /// The time for which an upstream may fail before `/readyz` says so.
    static let patience = Duration.seconds(2)
    /// The time between two log lines about a condition that lasts.
    static let pause = Duration.seconds(10)

    /// The name in `/readyz` of the condition that APNs does not answer. It makes no pusher unready: another one could
    /// do no more.
    static let apns = "apns"

    private let logger: Logger
    private let readiness: Readiness
    private let apns: UpstreamState
    private let outages = Mutex<[Upstream: Outage]>([:])
    /// Brands for which APNs is unavailable, with the reasons.
    private let away = Mutex<[String: String]>([:])
    private let logged = Mutex<[String: MonotonicTime]>([:])
    private let unlogged = Mutex<[String: (count: Int, last: PushCounts.Dropped?)]>([:])

    init(logger: Logger, readiness: Readiness, metrics: MetricsRegistry = MetricsRegistry()) {
        self.logger = logger
        self.readiness = readiness
        self.apns = UpstreamState(Self.apns, readiness: readiness, metrics: metrics)
        self.apns.report(nil)
    }

    /// Reports that an operation failed and is retried.
    func isAway(_ upstream: Upstream, _ reason: String, now: MonotonicTime = .now) {
        let isLogged = self.outages.withLock { outages in
            var outage = outages[upstream] ?? Outage(since: now, loggedAt: now - Self.pause)
            let isReported = now - outage.since >= Self.patience
            let isLogged = now - outage.loggedAt >= Self.pause
            if isLogged { outage.loggedAt = now }
            outage.isReported = outage.isReported || isReported
            outages[upstream] = outage
            // Under the lock, so that the last report is the true one.
            if isReported { self.readiness.note(WorkerCondition.upstreams, reason) }
            return isLogged
        }
        guard isLogged else { return }
        self.logger.warning(
            "operation failed, retrying", metadata: ["upstream": "\(upstream.rawValue)", "error": "\(reason)"])
    }

    /// Reports that an upstream works again.
    func isBack(_ upstream: Upstream) {
        self.outages.withLock { outages in
            guard outages.removeValue(forKey: upstream)?.isReported == true,
                !outages.values.contains(where: { $0.isReported })
            else { return }
            self.readiness.note(WorkerCondition.upstreams, nil)
        }
    }

    /// Performs an operation, and repeats it with growing pauses until it succeeds.
    ///
    /// - Throws: only when the task is cancelled and the operation failed.
    func retrying<Result>(
        _ upstream: Upstream, random: (ClosedRange<Double>) -> Double, _ operation: () async throws -> Result
    ) async throws -> Result {
        var attempt = 0
        while true {
            do {
                let result = try await operation()
                if attempt > 0 { self.isBack(upstream) }
                return result
            } catch {
                try Task.checkCancellation()
                attempt += 1
                self.isAway(upstream, "\(error)")
                try await Task.sleep(for: backoff(attempt: attempt, random: random))
            }
        }
    }

    /// Logs the notifications that were dropped: a line for each reason, with the number since the last line, and the
    /// order and the trace of the last one.
    func dropped(
        _ counts: [String: Int], last: [String: PushCounts.Dropped] = [:], now: MonotonicTime = .now
    ) {
        self.unlogged.withLock { unlogged in
            for (reason, count) in counts {
                let known = unlogged[reason]
                unlogged[reason] = ((known?.count ?? 0) + count, last[reason] ?? known?.last)
            }
        }
        let due = self.unlogged.withLock { unlogged in
            let due = self.logged.withLock { logged in
                let due = unlogged.filter { reason, _ in logged[reason].map { now - $0 >= Self.pause } ?? true }
                for reason in due.keys { logged[reason] = now }
                // Some reasons contain text from APNs: they are forgotten when they no longer occur.
                logged = logged.filter { now - $0.value < Self.pause * 2 }
                return due
            }
            for reason in due.keys { unlogged[reason] = nil }
            return due
        }
        for (reason, (count, last)) in due.sorted(by: { $0.key < $1.key }) {
            var metadata: Logger.Metadata = ["count": "\(count)", "reason": "\(reason)"]
            if let last { metadata["order"] = "\(last.order)" }
            self.logger.error("notifications dropped", metadata: metadata.traced(last?.trace))
        }
    }

    /// Logs that a record cannot be parsed.
    func unreadable(origin: String, reason: String) {
        self.logger.error("cannot read a record", metadata: ["origin": "\(origin)", "reason": "\(reason)"])
    }

    /// Logs that work of pushers that ended was found.
    func foundSuspects(_ keys: Int) {
        self.logger.notice(
            "a pusher ended with work in hand: its keys are taken one at a time", metadata: ["keys": "\(keys)"])
    }

    /// Logs that a record became a dead letter since pushers ended with it.
    func endsWorkers(origin: String) {
        self.logger.error("dead letter: pushers ended with this record", metadata: ["origin": "\(origin)"])
    }

    /// Reports that a credential's state has changed.
    func changed(_ type: String, _ change: CredentialQueue.Change) {
        let metadata: Logger.Metadata = ["type": "\(type)"]
        switch change {
        case .health(.healthy(let after)):
            self.reportReadiness(type, nil)
            self.logger.notice("APNs accepts notifications again", metadata: metadata.with("after", "\(after)"))
        case .health(.ill(let reason)):
            self.reportReadiness(type, reason)
            self.logger.error("APNs does not respond; notifications wait", metadata: metadata.with("reason", reason))
        case .health(.stopped(let reason)):
            // APNs answers, so it is not unavailable, and another process could do no more.
            self.reportReadiness(type, nil)
            self.logger.critical("APNs rejects the credential", metadata: metadata.with("reason", reason))
        case .breaker(.closed):
            self.logger.notice("unknown push tokens are removed again", metadata: metadata)
        case .breaker(.open):
            self.logger.critical(
                "APNs rejects too many push tokens; registrations are kept: check the APNs environment",
                metadata: metadata)
        }
    }

    /// Withdraws the report that APNs does not answer for a credential that was replaced, or whose brand is gone:
    /// nothing else would withdraw it.
    func renewed(_ type: OrderTypeIdentifier) { self.reportReadiness(type.rawValue, nil) }

    /// - Parameter reason: the reason why APNs is unavailable for a brand; nil: it is not.
    private func reportReadiness(_ type: String, _ reason: String?) {
        self.away.withLock { away in
            away[type] = reason
            let first = away.min { $0.key < $1.key }
            let others = away.count > 1 ? ", and \(away.count - 1) more" : ""
            self.apns.report(first.map { "\($0.key): \($0.value)\(others)" })
        }
    }

    /// Logs that the service is about to end.
    func stopping() {
        self.logger.info("stopping: waiting for answers in flight; waiting records stay uncommitted")
    }

    /// Logs a warning.
    func warn(_ text: Logger.Message, _ error: any Error) {
        self.logger.warning(text, metadata: ["error": "\(error)"])
    }
}

extension Logger.Metadata {
    fileprivate func with(_ key: String, _ value: String) -> Self {
        var metadata = self
        metadata[key] = "\(value)"
        return metadata
    }
}
