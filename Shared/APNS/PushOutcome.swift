import HTTP2
import Model

/// The outcome of one notification: an answer is a value, a missing answer is an error.
public enum PushOutcome: Hashable, Sendable {
    case answered(PushAnswer)
    case unanswered(APNSError)

    /// True if APNs accepted the notification.
    public var isAccepted: Bool { if case .answered(let answer) = self { answer.status == 200 } else { false } }
}

/// APNs' answer to one notification.
///
/// Source: Wallet Orders §4.3, §4.6
public struct PushAnswer: Hashable, Sendable {
    public let status: Int
    /// `reason` of the body; nil if the body has none, as with 200, or is not as Apple describes it.
    public let reason: String?
    /// `timestamp` of the body, with 410 only: the time when APNs found that the token is no longer valid.
    public let timestampMilliseconds: Int64?
    /// `apns-id` as returned by APNs.
    public let apnsID: String?
    /// `retry-after`, if given in seconds; capped at a day.
    ///
    /// Source: RFC 9110 §10.2.3
    public let retryAfterSeconds: Int?

    public init(
        status: Int, reason: String? = nil, timestampMilliseconds: Int64? = nil, apnsID: String? = nil,
        retryAfterSeconds: Int? = nil
    ) {
        self.status = status
        self.reason = reason
        self.timestampMilliseconds = timestampMilliseconds
        self.apnsID = apnsID
        self.retryAfterSeconds = retryAfterSeconds
    }

    /// The reason, if Apple documents it for the status.
    ///
    /// Source: Wallet Orders §4.6
    public var documentedReason: PushReason? {
        self.reason.flatMap(PushReason.init).flatMap { $0.status == self.status ? $0 : nil }
    }

    /// True if the answer is not one of APNs, but of something in its place: a proxy, another server, a middlebox.
    ///
    /// Such an answer has neither `apns-id` nor a documented reason. With 200, 429 and 5xx the status says enough.
    /// Source: Wallet Orders §4.3, §4.6
    public var isForeign: Bool {
        switch self.status {
        case 200, 429, 500...599: false
        default: self.apnsID == nil && self.documentedReason == nil
        }
    }

    /// The longest wait that is accepted from APNs.
    static let mostRetryAfterSeconds = 86_400

    /// - Returns: nil if the stream ended without an answer.
    init?(_ end: HTTP2StreamEnd) {
        guard end.isComplete, let status = end.status else { return nil }
        self.init(status: status, headers: end.headers, body: end.body)
    }

    /// Parses an answer as received; if the body is not JSON, only status and headers count.
    init(status: Int, headers: [HTTP2Header], body: [UInt8]) {
        self.status = status
        self.apnsID = headers.first { $0.name == "apns-id" }?.value
        self.retryAfterSeconds = headers.first { $0.name == "retry-after" }.flatMap { header in
            guard !header.value.isEmpty, header.value.utf8.allSatisfy(isDigit) else { return nil }
            // A number with more digits than an integer holds exceeds the bound as well.
            return min(Int(header.value) ?? .max, Self.mostRetryAfterSeconds)
        }
        let members = body.isEmpty ? nil : (try? JSON(parsing: body))?.object
        // A reason is a single word; an answer of an unknown server must not flood the logs.
        self.reason = members?["reason"]?.string.map { String($0.prefix(64)) }
        self.timestampMilliseconds = members?["timestamp"]?.integer
    }
}

private func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }
