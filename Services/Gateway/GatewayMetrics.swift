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
        self.durations = Dictionary(uniqueKeysWithValues: Self.endpoints.map { endpoint in
            let dimensions = [("endpoint", endpoint)]
            return (endpoint, Timer(label: "waybill_request_seconds", dimensions: dimensions, factory: factory))
        })
        self.responses = Dictionary(uniqueKeysWithValues: Self.endpoints.map { endpoint in
            (endpoint, Dictionary(uniqueKeysWithValues: Self.statuses.map { status in
                let dimensions = [("endpoint", endpoint), ("status", String(status))]
                return (status, Counter(label: "waybill_responses_total", dimensions: dimensions, factory: factory))
            }))
        })
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
