import CoreMetrics

/// The gateway's metrics, named in one place.
struct GatewayMetrics: Sendable {
    /// Requests that waited for a package being made.
    let held: Counter
    /// Those of them that asked for it, since the version had none.
    let unpackaged: Counter
    /// Messages that devices sent to the log.
    let deviceLogs: Counter
    let complaints: DeviceComplaints
    /// Messages that exceeded the limit and were not looked at.
    let deviceLogsDropped: Counter
    /// By reason: refused registrations, and refused ends of registrations.
    private let refusals: [Counter]
    /// By endpoint: from the request's last byte to the answer's first.
    private let durations: [Timer]
    /// By endpoint, and in it by status.
    private let responses: [Counter]

    /// The endpoints, by their labels.
    enum Endpoint: Int, CaseIterable {
        case package, link, mail, register, unregister, changes, log, order, push
        /// The requested resource is not known.
        case none

        var label: String { "\(self)" }
    }

    /// The reasons for refusing a registration, as labels.
    enum Refusal: String, CaseIterable {
        /// The order has as many devices as it may have.
        case devices
        /// The order had too many new devices recently.
        case rate
    }

    private static let statuses = [
        200, 303, 304, 401, 201, 204, 400, 403, 404, 405, 408, 413, 414, 417, 429, 431, 500, 501, 503, 505,
    ]

    init(factory: any MetricsFactory) {
        self.held = Counter(label: "waybill_fetches_held_total", factory: factory)
        self.unpackaged = Counter(label: "waybill_fetches_unpackaged_total", factory: factory)
        self.deviceLogs = Counter(label: "waybill_device_log_messages_total", factory: factory)
        self.deviceLogsDropped = Counter(label: "waybill_device_log_messages_dropped_total", factory: factory)
        self.complaints = DeviceComplaints(factory: factory)
        self.refusals = Refusal.allCases.map {
            Counter(
                label: "waybill_registrations_refused_total", dimensions: [("reason", $0.rawValue)], factory: factory)
        }
        let labels = Endpoint.allCases.map { [("endpoint", $0.label)] }
        self.durations = labels.map { Timer(label: "waybill_request_seconds", dimensions: $0, factory: factory) }
        self.responses = labels.flatMap { label in
            Self.statuses.map { status in
                Counter(
                    label: "waybill_responses_total", dimensions: label + [("status", String(status))],
                    factory: factory)
            }
        }
    }

    func refused(_ reason: Refusal) { self.refusals[reason == .devices ? 0 : 1].increment() }

    func answered(_ endpoint: Endpoint, status: Int, nanoseconds: Int64) {
        self.durations[endpoint.rawValue].recordNanoseconds(nanoseconds)
        guard let place = Self.statuses.firstIndex(of: status) else { return }
        self.responses[endpoint.rawValue * Self.statuses.count + place].increment()
    }
}

extension Route {
    /// The endpoint's label.
    var endpoint: GatewayMetrics.Endpoint {
        switch self {
        case .package: .package
        case .link: .link
        case .mail: .mail
        case .register: .register
        case .unregister: .unregister
        case .changes: .changes
        case .log: .log
        case .order: .order
        case .push: .push
        }
    }
}
