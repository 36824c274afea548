import CoreMetrics

/// The gateway's metrics, named once.
struct GatewayMetrics: Sendable {
    /// Requests that waited for a package on its way.
    let held: Counter
    /// Messages that devices sent to the log.
    let deviceLogs: Counter
    /// From the request's last byte to the answer's first.
    private let durations: [String: Timer]
    private let responses: [String: [Int: Counter]]

    /// The endpoints, as labels.
    static let endpoints = ["package", "register", "unregister", "changes", "log", "none"]
    private static let statuses = [200, 201, 204, 304, 400, 401, 404, 405, 413, 500, 503]

    init(factory: any MetricsFactory) {
        self.held = Counter(label: "waybill_fetches_held_total", factory: factory)
        self.deviceLogs = Counter(label: "waybill_device_log_messages_total", factory: factory)
        var durations: [String: Timer] = [:]
        var responses: [String: [Int: Counter]] = [:]
        for endpoint in Self.endpoints {
            let label = [("endpoint", endpoint)]
            durations[endpoint] = Timer(label: "waybill_request_seconds", dimensions: label, factory: factory)
            for status in Self.statuses {
                responses[endpoint, default: [:]][status] = Counter(
                    label: "waybill_responses_total", dimensions: label + [("status", String(status))],
                    factory: factory)
            }
        }
        self.durations = durations
        self.responses = responses
    }

    func answered(_ endpoint: String, status: Int, nanoseconds: Int64) {
        self.responses[endpoint]?[status]?.increment()
        self.durations[endpoint]?.recordNanoseconds(nanoseconds)
    }
}

extension Route {
    /// The endpoint's label.
    var endpoint: String {
        switch self {
        case .package: "package"
        case .register: "register"
        case .unregister: "unregister"
        case .changes: "changes"
        case .log: "log"
        }
    }
}
