package import APNS
import CoreMetrics
import Model
import Operations
import ServiceLifecycle
import Synchronization

/// The metrics of one credential and the host that it is used with.
///
/// They have three sources: what the scheduler counts (`PushCounts`), events of the client (`CredentialUpdate`), and
/// states, which are sampled (`CredentialGauges`).
///
/// Thread: any, including the client's event loop. A frequent event costs an atomic addition; a rare one, or a series
/// that is made on first use, a lock. Bounded: all labels come from closed sets (`CredentialSeries`).
package final class CredentialMetrics: Sendable {
    /// Upper ends of the buckets for the age of a change when APNs answers, in seconds: fine around the expected p99,
    /// and up to the hour that an outage may last.
    static let ageBounds = [
        0.001, 0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.25, 0.5, 1, 1.5, 2, 5, 10, 30,
        60, 120, 300, 600, 1800, 3600,
    ]

    private struct Made {
        var counters: [CredentialSeries: Counter] = [:]
        var meters: [CredentialSeries: Meter] = [:]
        var states: (credential: Meter, breaker: Meter)?
    }

    private let dimensions: [(String, String)]
    private let factory: MetricsRegistry
    private let made = Mutex(Made())
    private let accepted: Counter
    private let outcomes: [Outcome: Counter]
    private let retiredTokens: Counter
    private let ages: DurationHistogram
    private let answerTimes: DurationHistogram
    private let roundTrips: Timer

    /// The outcome of a notification, or of a request for one.
    enum Outcome: String, Hashable, Sendable, CaseIterable {
        /// APNs accepted it.
        case delivered
        /// It will be sent again.
        case retried
        /// It was merged into another notification.
        case coalesced
        /// It waited because of the hourly limit.
        case limited
        /// APNs does not know the token, and the registration is kept.
        case unknownToken = "unknown-token"
        /// It was dropped, and its device not notified.
        case dropped
    }

    /// - Parameters:
    ///   - name: that of the credential: its order type.
    ///   - host: `host:port` of APNs.
    init(name: String, host: String, factory: MetricsRegistry) {
        let dimensions = [("credential", name), ("host", host)]
        self.dimensions = dimensions
        self.factory = factory
        let accepted = CredentialSeries(status: 200, reason: nil)
        self.accepted = Counter(label: accepted.name, dimensions: dimensions + accepted.dimensions, factory: factory)
        self.outcomes = Dictionary(
            label: "waybill_pushes_total", by: "outcome", dimensions: dimensions, factory: factory)
        self.retiredTokens = Counter(
            label: "waybill_push_tokens_retired_total", dimensions: dimensions, factory: factory)
        // Not by credential: a histogram has dozens of series, and there may be hundreds of brands.
        let ofHost = [("host", host)]
        self.ages = factory.durations("waybill_push_age_seconds", dimensions: ofHost, bounds: Self.ageBounds)
        self.answerTimes = factory.durations(
            "waybill_apns_answer_seconds", dimensions: ofHost, bounds: Self.ageBounds)
        self.roundTrips = Timer(label: "waybill_apns_ping_seconds", dimensions: ofHost, factory: factory)
        // Starts at zero, since an alert on an increase does not see a series that begins with one.
        for code in PushDeadLetterCode.allCases { self.apply(.count(.deadLetters(code), by: 0)) }
    }

    /// Processes an event of the client's connections; does not block.
    package func happened(_ event: APNSEvent) { CredentialUpdate(event).map(self.apply) }

    /// Sets the gauges of the client's state.
    func set(_ snapshot: APNSSnapshot) {
        for update in CredentialUpdate.all(snapshot) { self.apply(update) }
    }

    /// Counts the outcomes of a burst of requests, each attempt separately: nearly all are the same, so they cost one
    /// addition together.
    package func answered(_ replies: [PushReply]) {
        var accepted = 0
        var seconds: [Double] = []
        seconds.reserveCapacity(replies.count)
        for reply in replies {
            if let elapsed = reply.elapsed { seconds.append(elapsed / .seconds(1)) }
            if case .answered(let answer) = reply.outcome, answer.status == 200, answer.reason == nil {
                accepted += 1
            } else {
                self.apply(.count(CredentialSeries(reply.outcome), by: 1))
            }
        }
        if accepted > 0 { self.accepted.increment(by: accepted) }
        self.answerTimes.record(seconds: seconds)
    }

    /// Counts outcomes of notifications.
    func count(_ outcome: Outcome, by count: Int = 1) {
        if count > 0 { self.outcomes[outcome]?.increment(by: count) }
    }

    /// Counts registrations that were removed because APNs reported that their token is gone.
    func retired(by count: Int = 1) { self.retiredTokens.increment(by: count) }

    /// Counts a device that was not notified.
    func deadLetter(_ code: PushDeadLetterCode) { self.apply(.count(.deadLetters(code), by: 1)) }

    /// Adds the counts of the scheduler. Clocks differ: an age below zero counts as zero.
    package func count(_ counts: PushCounts) {
        self.count(.delivered, by: counts.delivered)
        self.count(.retried, by: counts.retried)
        self.count(.coalesced, by: counts.coalesced)
        self.count(.limited, by: counts.limited)
        self.count(.unknownToken, by: counts.unknown)
        self.count(.dropped, by: counts.dropped.values.reduce(0, +))
        self.ages.record(seconds: counts.agesInMilliseconds.map { Double(max(0, $0)) / 1000 })
    }

    /// Sets the state of the credential and of the breaker of its tokens.
    ///
    /// - Parameters:
    ///   - credential: 0 healthy, 1 ill, 2 stopped.
    ///   - breaker: 0 closed, 1 open.
    ///
    /// A state that is nil stays as it is.
    func set(credential: Int? = nil, breaker: Int? = nil) {
        self.made.withLock { made in
            let states =
                made.states ?? (self.meter("waybill_push_credential_state"), self.meter("waybill_push_breaker_open"))
            made.states = states
            if let credential { states.credential.set(credential) }
            if let breaker { states.breaker.set(breaker) }
        }
    }

    /// Sets the state that has changed, which nobody has to wait for until the next sample.
    func changed(_ change: CredentialQueue.Change) {
        switch change {
        case .health(.healthy): self.set(credential: 0)
        case .health(.ill): self.set(credential: 1)
        case .health(.stopped): self.set(credential: 2)
        case .breaker(let state): self.set(breaker: state.gauge)
        }
    }

    /// Sets the number of orders, or devices of them, that wait for the credential.
    func pending(_ count: Int) { self.apply(.set(.pending, to: Double(count))) }

    /// Removes the gauges of a credential that is not used any more; counters stay, since they must not restart at
    /// zero.
    func retire() {
        self.made.withLock { made in
            for meter in made.meters.values { meter.destroy() }
            made.states?.credential.destroy()
            made.states?.breaker.destroy()
            made.meters = [:]
            made.states = nil
        }
    }

    private func apply(_ update: CredentialUpdate) {
        switch update {
        case .count(let series, let count):
            let counter = self.made.withLock { made in
                let counter =
                    made.counters[series]
                    ?? Counter(
                        label: series.name, dimensions: self.dimensions + series.dimensions, factory: self.factory)
                made.counters[series] = counter
                return counter
            }
            counter.increment(by: count)
        case .set(let series, let value):
            self.made.withLock { made in
                let meter = made.meters[series] ?? self.meter(series.name, series.dimensions)
                made.meters[series] = meter
                meter.set(value)
            }
        case .roundTrip(let time): self.roundTrips.recordSeconds(time / .seconds(1))
        }
    }

    private func meter(_ name: String, _ dimensions: [(String, String)] = []) -> Meter {
        Meter(label: name, dimensions: self.dimensions + dimensions, factory: self.factory)
    }
}

/// One series of a credential's metrics that is made on first use.
///
/// The labels come from closed sets: undocumented values that a peer sends become `other`.
enum CredentialSeries: Hashable, Sendable {
    /// Connections that were made.
    case connected
    /// Connections that could not be made, or that ended without our closing them, by the code of the error.
    case disconnected(APNSError.Code)
    /// GOAWAY frames, by APNs' reason and the frame's code.
    case goAway(reason: String, code: String)
    /// Announcements of another stream limit.
    case settings
    /// Requests that APNs left unprocessed.
    case refusedStreams
    /// Connections that were replaced by others.
    case replaced(APNSEvent.Replacement)
    /// Requests by outcome.
    case requests(status: String, reason: String)
    /// Dead letters by their code.
    case deadLetters(PushDeadLetterCode)
    case connections(APNSSnapshot.ConnectionState)
    case streamsInUse
    case streamLimit
    case queued
    case oldestQueuedSeconds
    /// Orders, or devices of them, that wait until there is room or APNs can be reached.
    case pending

    /// The metric's name.
    var name: String {
        switch self {
        case .connected: "waybill_apns_connected_total"
        case .disconnected: "waybill_apns_disconnected_total"
        case .goAway: "waybill_apns_goaways_total"
        case .settings: "waybill_apns_settings_changes_total"
        case .refusedStreams: "waybill_apns_refused_streams_total"
        case .replaced: "waybill_apns_connections_replaced_total"
        case .requests: "waybill_apns_requests_total"
        case .deadLetters: "waybill_push_dead_letters_total"
        case .connections: "waybill_apns_connections"
        case .streamsInUse: "waybill_apns_streams_in_use"
        case .streamLimit: "waybill_apns_stream_limit"
        case .queued: "waybill_apns_queued"
        case .oldestQueuedSeconds: "waybill_apns_queue_oldest_seconds"
        case .pending: "waybill_push_pending"
        }
    }

    /// The labels besides those of its credential.
    var dimensions: [(String, String)] {
        switch self {
        case .disconnected(let code): [("reason", code.rawValue)]
        case .goAway(let reason, let code): [("reason", reason), ("code", code)]
        case .replaced(let reason): [("reason", reason.rawValue)]
        case .requests(let status, let reason): [("status", status), ("reason", reason)]
        case .deadLetters(let code): [("code", code.rawValue)]
        case .connections(let state): [("state", state.rawValue)]
        case .connected, .settings, .refusedStreams, .streamsInUse, .streamLimit, .queued, .oldestQueuedSeconds,
            .pending:
            []
        }
    }
}

extension CredentialSeries {
    /// The series of one request's outcome.
    ///
    /// A reason counts only with the status that it is documented for, as with the verdicts.
    /// Source: Wallet Orders §4.6
    init(_ outcome: PushOutcome) {
        switch outcome {
        case .unanswered(let error): self = .requests(status: "none", reason: error.code.rawValue)
        case .answered(let answer) where answer.isForeign:
            self = .requests(status: Self.label(answer.status), reason: "not-apns")
        case .answered(let answer): self.init(status: answer.status, reason: answer.reason)
        }
    }

    /// The series of one request that was answered.
    init(status: Int, reason: String?) {
        let documented = reason.flatMap(PushReason.init(rawValue:)).flatMap { $0.status == status ? $0.rawValue : nil }
        self = .requests(
            status: Self.label(status), reason: reason == nil ? "none" : documented ?? Self.other)
    }

    /// The series of a GOAWAY. Source: Wallet Orders §4.5; RFC 9113 §7
    init(goAway reason: String?, code: String) {
        let documented = reason.map { PushReason(named: $0)?.rawValue ?? Self.other } ?? "none"
        self = .goAway(reason: documented, code: Self.frameCodes.contains(code) ? code : Self.other)
    }

    private static func label(_ status: Int) -> String {
        Self.statuses.contains(status) ? String(status) : Self.other
    }

    private static let other = "other"
    private static let statuses: Set<Int> = Set(PushReason.allCases.map(\.status)).union([200])

    /// Source: RFC 9113 §7
    private static let frameCodes: Set<String> = [
        "NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED",
        "FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM",
        "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
    ]
}

/// The effect of one event on a credential's metrics. Pure: no registry, no clock.
enum CredentialUpdate: Hashable, Sendable {
    case count(CredentialSeries, by: Int)
    case set(CredentialSeries, to: Double)
    case roundTrip(Duration)

    /// The effect of an event of the client; nil for one that the credential's state shows.
    init?(_ event: APNSEvent) {
        switch event {
        case .connected: self = .count(.connected, by: 1)
        case .disconnected(let error): self = .count(.disconnected(error.code), by: 1)
        case .unreachable: return nil
        case .goAway(let reason, let code): self = .count(CredentialSeries(goAway: reason, code: code), by: 1)
        // The value is in the snapshot, for all connections together.
        case .streamLimit: self = .count(.settings, by: 1)
        case .refusedStreams(let count): self = .count(.refusedStreams, by: count)
        case .pingRoundTrip(let time): self = .roundTrip(time)
        case .replaced(let reason): self = .count(.replaced(reason), by: 1)
        }
    }

    /// Returns the effects of a client's snapshot: each gauge every time, so that none keeps an old value.
    static func all(_ snapshot: APNSSnapshot) -> [CredentialUpdate] {
        APNSSnapshot.ConnectionState.allCases.map { state in
            .set(.connections(state), to: Double(snapshot.connections[state] ?? 0))
        } + [
            .set(.streamsInUse, to: Double(snapshot.streamsInUse)),
            .set(.streamLimit, to: Double(snapshot.streamLimit)),
            .set(.queued, to: Double(snapshot.queued)),
            .set(.oldestQueuedSeconds, to: (snapshot.oldestQueued ?? .zero) / .seconds(1)),
        ]
    }
}

/// Samples the state of each credential's client every few seconds, even of one that sends nothing.
struct CredentialGauges: Service {
    let metrics: PusherMetrics
    let scheduler: PushScheduler
    /// Returns the numbers of parked orders, or devices of them.
    let parked: @Sendable () -> [OrderTypeIdentifier: Int]
    var interval = Duration.seconds(3)

    func run() async throws {
        try? await cancelWhenGracefulShutdown {
            while true {
                await self.sample()
                try await Task.sleep(for: self.interval)
            }
        }
    }

    /// Samples once. Gauges of credentials without a client are removed.
    func sample() async {
        let clients = self.scheduler.clients
        for (type, client) in clients { self.metrics[type.rawValue].set(await client.snapshot()) }
        var pending = self.parked()
        for (type, health, breaker) in self.scheduler.credentialStates {
            self.metrics[type.rawValue].set(credential: health.gauge, breaker: breaker.gauge)
            self.metrics[type.rawValue].pending(pending.removeValue(forKey: type) ?? 0)
        }
        // Order types come from the records' keys: those without a brand must not become labels of metrics.
        self.metrics.unknownTypes.pending(pending.values.reduce(0, +))
        self.metrics.removeGauges(except: Set(clients.keys.map(\.rawValue)).union([PusherMetrics.unknownType]))
    }
}
