/// What the simulator answers to one notification.
public struct APNSSimulatorAnswer: Hashable, Sendable {
    /// The HTTP status, 200 to 599.
    public var status: Int
    /// Why, in APNs' words; nil with status 200.
    public var reason: String?
    /// Since when a token is known to be dead; goes with status 410.
    public var timestampEpochMilliseconds: Int64?

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
        guard let reason = self.reason else { return "" }
        var body = "{\"reason\":"
        body.appendJSON(reason)
        if let timestamp = self.timestampEpochMilliseconds { body += ",\"timestamp\":\(timestamp)" }
        return body + "}"
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
