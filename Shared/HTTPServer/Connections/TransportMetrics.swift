import CoreMetrics
import Operations

/// The metrics of connections and of TLS, named in one place.
struct TransportMetrics: Sendable {
    /// Open connections.
    let connections: Meter
    /// Connections that were closed while they were idle, to make room.
    let gaveWay: Counter
    /// TLS handshakes that failed.
    let handshakesFailed: Counter
    let certificateState: ReloadState
    /// Certificates that were loaded while running.
    let certificatesLoaded: Counter
    /// Certificates that could not be loaded; the former one stays in use.
    let certificatesRefused: Counter
    /// Bytes of memory that `BodyAccount` counts.
    let bodyBytes: Meter
    private let refusals: [ConnectionLimits.Refusal: Counter]
    private let bodiesGaveWay: [BodyBudget.Scope: Counter]
    private let factory: any MetricsFactory

    init(factory: any MetricsFactory) {
        self.factory = factory
        self.connections = Meter(label: "waybill_connections", factory: factory)
        self.gaveWay = Counter(label: "waybill_connections_gave_way_total", factory: factory)
        self.handshakesFailed = Counter(label: "waybill_tls_handshakes_failed_total", factory: factory)
        self.certificateState = ReloadState("tls", factory: factory)
        let reloads = "waybill_tls_certificate_reloads_total"
        self.certificatesLoaded = Counter(label: reloads, dimensions: [("outcome", "loaded")], factory: factory)
        self.certificatesRefused = Counter(label: reloads, dimensions: [("outcome", "refused")], factory: factory)
        self.bodyBytes = Meter(label: "waybill_request_bytes", factory: factory)
        self.bodiesGaveWay = BodyBudget.Scope.allCases.reduce(into: [:]) { counters, scope in
            counters[scope] = Counter(
                label: "waybill_requests_gave_way_total", dimensions: [("limit", scope.rawValue)], factory: factory)
        }
        self.refusals = ConnectionLimits.Refusal.allCases.reduce(into: [:]) { refusals, reason in
            refusals[reason] = Counter(
                label: "waybill_connections_refused_total", dimensions: [("reason", reason.rawValue)], factory: factory)
        }
    }

    /// The last second of the served certificate, in seconds since 1970. A server without TLS has no such metric: its 0
    /// would be an expiry in 1970.
    func certificateEnds(epochSeconds: Int64) {
        CertificateExpiry.meter(owner: "gateway", certificate: "tls", factory: self.factory).set(epochSeconds)
    }

    func bodyGaveWay(_ scope: BodyBudget.Scope) { self.bodiesGaveWay[scope]?.increment() }

    func refused(_ reason: ConnectionLimits.Refusal) { self.refusals[reason]?.increment() }
}
