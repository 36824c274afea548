/// What somebody asks of the simulator over its admin port.
enum APNSSimulatorAdminCommand: Hashable {
    case deliveries(after: UInt64, waitMilliseconds: Int64, limit: Int)
    case clearDeliveries
    case faults
    case addFault(APNSSimulatorFault)
    case clearFaults
    case connections

    /// Why a request is none of these.
    struct Refusal: Error, Hashable {
        let status: Int
        let message: String

        /// The body that says so.
        var json: String {
            var text = "{\"error\":"
            text.appendJSON(self.message)
            return text + "}"
        }
    }

    /// The longest that `GET /deliveries` waits.
    static let waitLimitMilliseconds: Int64 = 60_000

    /// - Parameters:
    ///   - uri: path and query.
    ///   - nowEpochMilliseconds: for a fault without a timestamp.
    init(method: String, uri: String, body: [UInt8], nowEpochMilliseconds: Int64) throws(Refusal) {
        let parts = uri.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        let path = parts[0]
        if path != "/deliveries" || method != "GET", parts.count > 1 {
            throw Refusal(status: 400, message: "only GET /deliveries takes a query")
        }
        switch (path, method) {
        case ("/deliveries", "GET"): self = try Self.deliveries(query: parts.count > 1 ? parts[1] : "")
        case ("/deliveries", "DELETE"): self = .clearDeliveries
        case ("/faults", "GET"): self = .faults
        case ("/faults", "DELETE"): self = .clearFaults
        case ("/faults", "POST"):
            do {
                self = .addFault(try APNSSimulatorFault(json: body, nowEpochMilliseconds: nowEpochMilliseconds))
            } catch {
                throw Refusal(status: 400, message: error.message)
            }
        case ("/connections", "GET"): self = .connections
        case ("/deliveries", _), ("/faults", _), ("/connections", _):
            throw Refusal(status: 405, message: "\(method) is not possible here")
        default:
            throw Refusal(status: 404, message: "there are /deliveries, /faults and /connections")
        }
    }

    private static func deliveries(query: Substring) throws(Refusal) -> Self {
        var after: UInt64 = 0
        var wait: Int64 = 0
        var limit = Int.max
        for pair in query.split(separator: "&") {
            let halves = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let value = halves.count > 1 ? halves[1] : ""
            switch halves[0] {
            case "after":
                guard let number = UInt64(value) else { throw Self.bad("after", "a whole number") }
                after = number
            case "wait":
                guard let seconds = Double(value), seconds >= 0, seconds.isFinite else {
                    throw Self.bad("wait", "a number of seconds")
                }
                wait = Int64(min(seconds * 1000, Double(Self.waitLimitMilliseconds)))
            case "limit":
                guard let number = Int(value), number > 0 else { throw Self.bad("limit", "a whole number from 1") }
                limit = number
            default:
                throw Refusal(status: 400, message: "GET /deliveries takes after, wait and limit, not \(halves[0])")
            }
        }
        return .deliveries(after: after, waitMilliseconds: wait, limit: limit)
    }

    private static func bad(_ name: String, _ expected: String) -> Refusal {
        Refusal(status: 400, message: "\(name) must be \(expected)")
    }
}
