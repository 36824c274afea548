import Model

/// Why a fault cannot be put up; a sentence for the person who asked for it.
struct APNSSimulatorFaultError: Error, Hashable { let message: String }

extension APNSSimulatorFault {
    /// Reads the body of `POST /faults`.
    ///
    /// Where it hits: `token`, `connection`, `count`, or `"now": true`. What happens, one of: `status` with `reason`,
    /// `timestampEpochMilliseconds` and perhaps `delayMilliseconds`; `delayMilliseconds` alone; `goaway` with `reason`
    /// and `processed`; `cut`; `silence`; `maxConcurrentStreams`.
    /// - Parameter nowEpochMilliseconds: the timestamp of a 410 that brings none.
    init(json bytes: [UInt8], nowEpochMilliseconds: Int64) throws(APNSSimulatorFaultError) {
        let object: JSONObject
        do {
            guard let parsed = try JSON(parsing: bytes).object else { throw Self.error("a fault is a JSON object") }
            object = parsed
        } catch let error as APNSSimulatorFaultError {
            throw error
        } catch {
            throw Self.error("reading the fault: \(error)")
        }
        let members: Set<String> = [
            "token", "connection", "count", "now", "status", "reason", "timestampEpochMilliseconds",
            "delayMilliseconds", "goaway", "cut", "silence", "maxConcurrentStreams",
        ]
        try Self.refuseUnknown(object, allowed: members, at: "$")
        let token = try Self.member(object, "token", "a string") { $0.string }
        let now = try Self.member(object, "now", "true or false") { $0.bool } ?? false
        let connection = try Self.member(object, "connection", "a whole number from 1") { Self.count($0, 1) }
        let count = try Self.member(object, "count", "a whole number from 1") { Self.count($0, 1) }
        let effect = try Self.effect(of: object, nowEpochMilliseconds: nowEpochMilliseconds)
        switch effect {
        case .answer, .delay:
            if now { throw Self.error("$.now goes with goaway, cut and silence only") }
        case .maxConcurrentStreams:
            if now || token != nil || count != nil {
                throw Self.error("maxConcurrentStreams holds until cleared, for a connection or for all")
            }
        case .goAway, .cut, .silence:
            if now && (token != nil || count != nil) {
                throw Self.error("with $.now nothing waits for a request, so there is no token and no count")
            }
        }
        self.init(effect, token: token, connection: connection, count: count, isImmediate: now)
    }

    private static func effect(
        of object: JSONObject, nowEpochMilliseconds: Int64
    ) throws(APNSSimulatorFaultError) -> Effect {
        let kinds = ["status", "goaway", "cut", "silence", "maxConcurrentStreams"].filter { object[$0] != nil }
        guard kinds.count <= 1 else {
            throw self.error("a fault is one thing, not \(kinds.joined(separator: " and "))")
        }
        let delay = try self.member(object, "delayMilliseconds", "a whole number from 0 to 600000") {
            self.count($0, 0, 600_000)
        }
        if kinds.first != "status" {
            for name in ["reason", "timestampEpochMilliseconds"] where object[name] != nil {
                throw self.error("$.\(name) goes with status only")
            }
            if !kinds.isEmpty && delay != nil { throw self.error("$.delayMilliseconds goes with status or alone") }
        }
        switch kinds.first {
        case "status":
            return .answer(
                try self.answer(object, nowEpochMilliseconds: nowEpochMilliseconds), delayMilliseconds: delay ?? 0)
        case "goaway":
            guard let goaway = object["goaway"]?.object else { throw self.error("$.goaway must be an object") }
            try self.refuseUnknown(goaway, allowed: ["reason", "processed"], at: "$.goaway")
            let reason = try self.member(goaway, "reason", "a string") { $0.string } ?? ""
            let processed = try self.member(goaway, "processed", "true or false") { $0.bool } ?? true
            return .goAway(reason: reason, processed: processed)
        case "cut":
            guard object["cut"] == true else { throw self.error("$.cut must be true") }
            return .cut
        case "silence":
            guard object["silence"] == true else { throw self.error("$.silence must be true") }
            return .silence
        case "maxConcurrentStreams":
            let limit = try self.member(object, "maxConcurrentStreams", "a whole number from 0 to 100000") {
                self.count($0, 0, 100_000)
            }
            return .maxConcurrentStreams(limit ?? 0)
        default:
            guard let delay else {
                throw self.error(
                    "a fault needs one of status, delayMilliseconds, goaway, cut, silence, maxConcurrentStreams")
            }
            return .delay(milliseconds: delay)
        }
    }

    private static func answer(
        _ object: JSONObject, nowEpochMilliseconds: Int64
    ) throws(APNSSimulatorFaultError) -> APNSSimulatorAnswer {
        let status = try self.member(object, "status", "a whole number from 200 to 599") { self.count($0, 200, 599) }
        let reason = try self.member(object, "reason", "a string") { $0.string }
        let timestamp = try self.member(object, "timestampEpochMilliseconds", "a whole number") { $0.integer }
        let answer = APNSSimulatorAnswer(status ?? 500, reason, timestampEpochMilliseconds: timestamp)
        guard answer.status == 410, timestamp == nil else { return answer }
        return APNSSimulatorAnswer(410, reason, timestampEpochMilliseconds: nowEpochMilliseconds)
    }

    private static func count(_ json: JSON, _ minimum: Int64, _ maximum: Int64 = 1_000_000_000) -> Int? {
        json.integer.flatMap { (minimum...maximum).contains($0) ? Int($0) : nil }
    }

    private static func member<Value>(
        _ object: JSONObject, _ name: String, _ expected: String, _ read: (JSON) -> Value?
    ) throws(APNSSimulatorFaultError) -> Value? {
        guard let json = object[name] else { return nil }
        guard let value = read(json) else { throw self.error("$.\(name) must be \(expected)") }
        return value
    }

    private static func refuseUnknown(
        _ object: JSONObject, allowed: Set<String>, at path: String
    ) throws(APNSSimulatorFaultError) {
        for member in object.members where !allowed.contains(member.name) {
            throw self.error("\(path).\(member.name) is not a member of a fault")
        }
    }

    private static func error(_ message: String) -> APNSSimulatorFaultError {
        APNSSimulatorFaultError(message: message)
    }
}

extension APNSSimulatorFaults.Standing {
    /// The fault as `GET /faults` shows it, in the words of `POST /faults`.
    var json: JSON {
        var object = JSONObject([("fault", .integer(Int64(self.number)))])
        object["token"] = self.fault.token.map { .string($0) }
        object["connection"] = self.fault.connection.map { .integer(Int64($0)) }
        object["count"] = self.remaining.map { .integer(Int64($0)) }
        switch self.fault.effect {
        case .answer(let answer, let delay):
            object["status"] = .integer(Int64(answer.status))
            object["reason"] = answer.reason.map { .string($0) }
            object["timestampEpochMilliseconds"] = answer.timestampEpochMilliseconds.map { .integer($0) }
            object["delayMilliseconds"] = delay == 0 ? nil : .integer(Int64(delay))
        case .delay(let milliseconds): object["delayMilliseconds"] = .integer(Int64(milliseconds))
        case .goAway(let reason, let processed):
            object["goaway"] = ["reason": .string(reason), "processed": .bool(processed)]
        case .cut: object["cut"] = true
        case .silence: object["silence"] = true
        case .maxConcurrentStreams(let limit): object["maxConcurrentStreams"] = .integer(Int64(limit))
        }
        return .object(object)
    }
}
