/// What the simulator answers to one notification.
public struct APNSSimulatorAnswer: Hashable, Sendable {
    /// The HTTP status, 200 to 599.
    public var status: Int
    /// Why, in APNs' words; nil with status 200.
    public var reason: String?
    /// Since when a token is known to be dead; goes with status 410.
    public var timestampEpochMilliseconds: Int64?

    /// The same, counted from when the answer is given; goes before `timestampEpochMilliseconds`.
    public var timestampOffsetMilliseconds: Int64?
    /// The header `retry-after`. Source: RFC 9110 §10.2.3
    public var retryAfterSeconds: Int?
    /// How the body is.
    public var form = Form.usual
    /// Whether the answer carries `apns-id`.
    public var hasIdentifier = true

    /// How the body of an answer is, right or wrong.
    public enum Form: Hashable, Sendable {
        /// As APNs has it: empty, or JSON with the reason.
        case usual
        /// None, whatever the status is.
        case none
        /// JSON that breaks off.
        case broken
        /// JSON with a reason of so many bytes.
        case huge(bytes: Int)
        /// Header and body come, the end of the stream never does.
        case unfinished
    }

    public init(_ status: Int, _ reason: String? = nil, timestampEpochMilliseconds: Int64? = nil) {
        self.status = status
        self.reason = reason
        self.timestampEpochMilliseconds = timestampEpochMilliseconds
    }

    /// The notification is taken.
    public static let accepted = Self(200)

    /// The body: empty when there is no reason.
    ///
    /// Source: Wallet Orders §4.3: JSON with `reason`, and with 410 `timestamp` in milliseconds
    public var body: String {
        switch self.form {
        case .none: return ""
        case .broken: return "{\"reason\":\"Unregis"
        case .huge(let bytes): return "{\"reason\":\"" + String(repeating: "x", count: max(0, bytes)) + "\"}"
        case .usual, .unfinished: break
        }
        guard let reason = self.reason else { return "" }
        var body = "{\"reason\":"
        body.appendJSON(reason)
        if let timestamp = self.timestampEpochMilliseconds { body += ",\"timestamp\":\(timestamp)" }
        return body + "}"
    }

    /// The answer with a timestamp that counts from now made a fixed one.
    func given(nowEpochMilliseconds now: Int64) -> Self {
        guard let offset = self.timestampOffsetMilliseconds else { return self }
        var answer = self
        answer.timestampEpochMilliseconds = now.addingReportingOverflow(offset).partialValue
        answer.timestampOffsetMilliseconds = nil
        return answer
    }
}

extension String {
    /// Appends a JSON string with its quotes.
    ///
    /// Source: RFC 8259 §7
    mutating func appendJSON(_ text: String) {
        self += "\""
        let plain = text.utf8.allSatisfy { $0 >= 0x20 && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }
        if plain {
            self += text
        } else {
            for scalar in text.unicodeScalars {
                switch scalar {
                case "\"": self += "\\\""
                case "\\": self += "\\\\"
                case _ where scalar.value < 0x20:
                    self += "\\u00" + (scalar.value < 0x10 ? "0" : "") + String(scalar.value, radix: 16)
                default: self.unicodeScalars.append(scalar)
                }
            }
        }
        self += "\""
    }

    /// Appends a JSON string, or `null`.
    mutating func appendJSON(_ text: String?) {
        if let text { self.appendJSON(text) } else { self += "null" }
    }
}
