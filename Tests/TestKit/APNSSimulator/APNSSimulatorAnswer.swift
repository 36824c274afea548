/// The simulator's answer to one notification.
public struct APNSSimulatorAnswer: Hashable, Sendable {
    /// The HTTP status, 200 to 599.
    public var status: Int
    /// The reason, in APNs' words; nil with status 200.
    public var reason: String?
    /// The time since which a token is known to be invalid; APNs sends it with status 410 only.
    public var timestampEpochMilliseconds: Int64?

    /// The same, relative to the time of the answer; takes precedence over `timestampEpochMilliseconds`.
    public var timestampOffsetMilliseconds: Int64?
    /// The header `retry-after`. Source: RFC 9110 §10.2.3
    public var retryAfterSeconds: Int?
    /// The form of the body.
    public var form = Form.usual
    /// True if the answer carries `apns-id`.
    public var hasIdentifier = true

    /// The form of an answer's body, valid or invalid.
    public enum Form: Hashable, Sendable {
        /// The form of APNs: empty, or JSON with the reason.
        case usual
        /// Empty with any status.
        case none
        /// Truncated JSON.
        case broken
        /// JSON with a reason of this many bytes.
        case huge(bytes: Int)
        /// A page of this many bytes, as a proxy or another server answers.
        case page(bytes: Int)
        /// Header and body are sent, but never the end of the stream.
        case unfinished
    }

    public init(_ status: Int, _ reason: String? = nil, timestampEpochMilliseconds: Int64? = nil) {
        self.status = status
        self.reason = reason
        self.timestampEpochMilliseconds = timestampEpochMilliseconds
    }

    /// Returns the answer of another server than APNs: a page, without `apns-id`.
    public static func foreign(_ status: Int, bytes: Int = 150) -> Self {
        var answer = Self(status)
        answer.form = .page(bytes: bytes)
        answer.hasIdentifier = false
        return answer
    }

    /// The acceptance of a notification.
    public static let accepted = Self(200)

    /// The body: empty if there is no reason.
    ///
    /// Source: Wallet Orders §4.3: JSON with `reason`, and with 410 `timestamp` in milliseconds
    public var body: String {
        switch self.form {
        case .none: return ""
        case .broken: return "{\"reason\":\"Unregis"
        case .huge(let bytes): return "{\"reason\":\"" + String(repeating: "x", count: max(0, bytes)) + "\"}"
        case .page(let bytes): return "<html>" + String(repeating: "x", count: max(0, bytes - 6))
        case .usual, .unfinished: break
        }
        guard let reason = self.reason else { return "" }
        var body = "{\"reason\":"
        body.appendJSON(reason)
        if let timestamp = self.timestampEpochMilliseconds { body += ",\"timestamp\":\(timestamp)" }
        return body + "}"
    }

    /// Returns the answer with a relative timestamp made absolute.
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
