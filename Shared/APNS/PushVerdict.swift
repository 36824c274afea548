import HTTP2
import Model

/// The action to take after a notification's outcome.
public enum PushVerdict: Hashable, Sendable {
    /// APNs accepted the notification.
    case delivered
    /// The push token is no longer valid: delete it if it was registered before this moment, in milliseconds since
    /// 1970.
    ///
    /// Only an entry that is still stored as it was looked up is deleted; a device that has registered again stays.
    case retire(registeredBeforeMilliseconds: Int64)
    /// APNs does not know the push token (BadDeviceToken): it is garbage, or belongs to the other environment. Or it
    /// expired (ExpiredToken with 400, the status of an older document), for which there is no proof of a timestamp.
    ///
    /// One answer cannot distinguish these, so `TokenBreaker` decides about deleting the token.
    case unknownToken
    /// Send the notification again later.
    case retry(PushRetry)
    /// Nothing with this credential can succeed: raise an alarm, and send nothing with it but an occasional probe.
    ///
    /// `CredentialHealth` decides otherwise if notifications with the same credential are delivered at the same time.
    case stopCredential(reason: String)
    /// This notification can never succeed: raise an alarm and continue with the others. A flood of such
    /// notifications is a configuration error, which `CredentialHealth` detects.
    case drop(reason: String)
}

/// Returns the verdict on an outcome: by the table if it has a row for the answer, else by the class of the status.
///
/// An answer that is not of APNs says nothing about the notification, which is sent again as if APNs were unavailable.
/// A reason counts only together with a status that Apple documents for it: nothing is deleted or stopped because of
/// an answer that contradicts itself. 429 is a retry whatever its body is (RFC 6585 §4), for the device, connection or
/// service as the reason requires: one notification too many costs less than a customer who is not notified.
/// Source: Wallet Orders §4.6
/// - Parameter sentEpochMilliseconds: the time when the attempt began. A 410 without a timestamp retires only
///   registrations older than that, because it cannot refer to later ones.
public func verdict(of outcome: PushOutcome, sentEpochMilliseconds: Int64 = .max) -> PushVerdict {
    switch outcome {
    case .unanswered(let error): verdict(of: error)
    case .answered(let answer): verdict(of: answer, sentEpochMilliseconds)
    }
}

private func verdict(of answer: PushAnswer, _ sentEpochMilliseconds: Int64) -> PushVerdict {
    if answer.status == 200 { return .delivered }
    let text = "\(answer.status) \(answer.reason.map(PushReason.word) ?? "without a reason")"
    func retry(_ scope: PushRetry.Scope) -> PushVerdict {
        .retry(
            PushRetry(
                reason: text, scope: scope, afterSeconds: answer.retryAfterSeconds,
                cause: .answer(status: answer.status)))
    }
    if answer.isForeign { return .retry(.foreign(answer.status)) }
    guard let reason = answer.documentedReason else {
        return answer.status == 429 || (500...599).contains(answer.status) ? retry(.service) : .drop(reason: text)
    }
    switch reason {
    case .badDeviceToken:
        return .unknownToken
    case .expiredToken where answer.status == 400:
        return .unknownToken
    case .unregistered, .expiredToken:
        return .retire(registeredBeforeMilliseconds: answer.timestampMilliseconds ?? sentEpochMilliseconds)
    case .badTopic, .missingTopic, .topicDisallowed, .badCertificate, .badCertificateEnvironment, .forbidden,
        .invalidProviderToken, .missingProviderToken, .badEnvironmentKeyInToken:
        return .stopCredential(reason: text)
    // One device can register with a token of another app, which must not stop the others.
    case .deviceTokenNotForTopic:
        return .drop(reason: text)
    case .badCollapseID, .badExpirationDate, .badMessageID, .badPriority, .invalidPushType, .duplicateHeaders,
        .missingDeviceToken, .payloadEmpty, .badPath, .methodNotAllowed, .payloadTooLarge:
        return .drop(reason: text)
    // The client itself replaces the connection or the token, or keeps a token that APNs wants it to keep.
    case .idleTimeout, .shutdown, .expiredProviderToken, .unrelatedKeyIDInToken, .tooManyProviderTokenUpdates:
        return retry(.connection)
    case .tooManyRequests:
        return retry(.device)
    case .internalServerError, .serviceUnavailable:
        return retry(.service)
    }
}

/// Returns the verdict on a missing answer. A repetition is harmless even if APNs has processed the request: the
/// notification only says that something changed.
private func verdict(of error: APNSError) -> PushVerdict {
    let scope: PushRetry.Scope
    switch error.code {
    // The connection is gone or accepts no more requests, or only the stream failed: another connection may work.
    case .connectionLost, .protocolViolation, .silent, .timeout, .closed: scope = .connection
    // Nothing was sent: APNs cannot be reached at the moment, or too much is queued for it.
    case .notStarted, .connecting, .tls, .queueFull: scope = .service
    case .configuration, .credential: return .stopCredential(reason: error.message)
    }
    return .retry(PushRetry(reason: error.message, scope: scope, cause: .error(error.code)))
}

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

    /// The reason, if Apple documents it for the status, now or in an earlier edition.
    ///
    /// Source: Wallet Orders §4.6
    public var documentedReason: PushReason? {
        self.reason.flatMap(PushReason.init(named:)).flatMap { $0.statuses.contains(self.status) ? $0 : nil }
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

/// The reason for sending a notification again, and what the failure says about others.
public struct PushRetry: Hashable, Sendable {
    /// The extent of the failure, as far as the outcome itself shows.
    public enum Scope: Hashable, Sendable, CaseIterable {
        /// This device alone: it backs off while others continue.
        case device
        /// The connection or its provider token, which the client replaces: another connection may work immediately.
        case connection
        /// APNs as a whole, or the network path to it.
        case service
    }

    /// The kind of outcome.
    public enum Cause: Hashable, Sendable {
        case answer(status: Int)
        /// Something in APNs' place answered: see `PushAnswer.isForeign`.
        case foreign(status: Int)
        case error(APNSError.Code)
    }

    /// Text for people: status and reason, or the error if there is no answer. Contains no token and no device.
    public var reason: String
    public var scope: Scope
    /// `Retry-After` of the answer; bounded by `RetrySchedule`, not here.
    public var afterSeconds: Int?
    public var cause: Cause

    public init(reason: String, scope: Scope, afterSeconds: Int? = nil, cause: Cause) {
        self.reason = reason
        self.scope = scope
        self.afterSeconds = afterSeconds
        self.cause = cause
    }

    /// Returns a retry for a notification that another server than APNs answered.
    static func foreign(_ status: Int) -> PushRetry {
        PushRetry(
            reason: "status \(status) is not an answer of APNs: check WAYBILL_APNS_URL, proxy and name resolution",
            scope: .service, cause: .foreign(status: status))
    }

    /// Returns a retry for a notification that was refused because of its credential while others with that credential
    /// are delivered: the refusal concerns one host or one connection.
    public static func contradicted(_ reason: String) -> PushRetry {
        PushRetry(reason: reason, scope: .connection, cause: .answer(status: 403))
    }
}
