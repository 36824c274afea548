/// A command received over the simulator's admin port.
enum APNSSimulatorAdminCommand: Hashable {
    case deliveries(after: UInt64, waitMilliseconds: Int64, limit: Int)
    case clearDeliveries
    case journal(after: UInt64, limit: Int)
    case clearJournal
    case faults
    case addFault(APNSSimulatorFault)
    case clearFaults
    case scenario
    case runScenario(APNSSimulatorScenario)
    case clearScenario
    case connections
    case statistics
    case unheard

    /// The reason why a request is not a command.
    struct Refusal: Error, Hashable {
        let status: Int
        let message: String

        /// The body that reports it.
        var json: String {
            var text = "{\"error\":"
            text.appendJSON(self.message)
            return text + "}"
        }
    }

    /// The longest wait of `GET /deliveries`.
    static let waitLimitMilliseconds: Int64 = 60_000
    /// The most elements of one answer, so that it is made within a few milliseconds.
    static let pageLimit = 10_000

    /// - Parameters:
    ///   - uri: path and query.
    ///   - nowEpochMilliseconds: the timestamp of a 410 without one.
    init(method: String, uri: String, body: [UInt8], nowEpochMilliseconds: Int64) throws(Refusal) {
        let parts = uri.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        let path = parts.first ?? ""
        let query = parts.count > 1 ? parts[1] : ""
        if !["/deliveries", "/journal"].contains(path) || method != "GET", parts.count > 1 {
            throw Refusal(status: 400, message: "only GET /deliveries and GET /journal take a query")
        }
        switch (path, method) {
        case ("/deliveries", "GET"):
            let page = try Self.page(of: query, waits: true)
            self = .deliveries(after: page.after, waitMilliseconds: page.wait, limit: page.limit)
        case ("/deliveries", "DELETE"): self = .clearDeliveries
        case ("/journal", "GET"):
            let page = try Self.page(of: query, waits: false)
            self = .journal(after: page.after, limit: page.limit)
        case ("/journal", "DELETE"): self = .clearJournal
        case ("/faults", "GET"): self = .faults
        case ("/faults", "DELETE"): self = .clearFaults
        case ("/scenario", "GET"): self = .scenario
        case ("/scenario", "DELETE"): self = .clearScenario
        case ("/faults", "POST"), ("/scenario", "POST"):
            do {
                if path == "/faults" {
                    self = .addFault(try APNSSimulatorFault(json: body, nowEpochMilliseconds: nowEpochMilliseconds))
                } else {
                    self = .runScenario(
                        try APNSSimulatorScenario(reading: body, nowEpochMilliseconds: nowEpochMilliseconds))
                }
            } catch {
                throw Refusal(status: 400, message: error.message)
            }
        case ("/connections", "GET"): self = .connections
        case ("/statistics", "GET"): self = .statistics
        case ("/unheard", "GET"): self = .unheard
        case ("/deliveries", _), ("/faults", _), ("/connections", _), ("/journal", _), ("/scenario", _),
            ("/statistics", _), ("/unheard", _):
            throw Refusal(status: 405, message: "\(method) is not possible here")
        default:
            throw Refusal(
                status: 404,
                message: "there are /deliveries, /unheard, /faults, /scenario, /journal, /connections and /statistics")
        }
    }

    private static func page(
        of query: Substring, waits: Bool
    ) throws(Refusal) -> (after: UInt64, wait: Int64, limit: Int) {
        var page: (after: UInt64, wait: Int64, limit: Int) = (0, 0, Self.pageLimit)
        for pair in query.split(separator: "&") {
            let halves = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let value = halves.count > 1 ? halves[1] : ""
            switch halves.first {
            case "after":
                guard let number = UInt64(value) else { throw Self.bad("after", "a whole number") }
                page.after = number
            case "wait" where waits:
                guard let seconds = Double(value), seconds >= 0, seconds.isFinite else {
                    throw Self.bad("wait", "a number of seconds")
                }
                page.wait = Int64(min(seconds * 1000, Double(Self.waitLimitMilliseconds)))
            case "limit":
                guard let number = Int(value), number > 0 else { throw Self.bad("limit", "a whole number from 1") }
                page.limit = min(number, Self.pageLimit)
            default:
                let known = waits ? "after, wait and limit" : "after and limit"
                throw Refusal(status: 400, message: "a query has \(known), not \(halves.first ?? "")")
            }
        }
        return page
    }

    private static func bad(_ name: String, _ expected: String) -> Refusal {
        Refusal(status: 400, message: "\(name) must be \(expected)")
    }
}
