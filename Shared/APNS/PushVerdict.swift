/// The action to take after a notification's outcome.
public enum PushVerdict: Hashable, Sendable {
    /// APNs accepted it.
    case delivered
    /// The push token is no longer valid: delete it if it was registered before this moment, in milliseconds since
    /// 1970.
    ///
    /// Deletes only an entry that is still stored as it was looked up; a device that registered again meanwhile stays.
    case retire(registeredBeforeMilliseconds: Int64)
    /// APNs does not know the push token (BadDeviceToken): it is garbage, or belongs to the other environment.
    ///
    /// One answer cannot tell these apart, so `TokenBreaker` decides if the token is deleted.
    case unknownToken
    /// Send it again later.
    case retry(PushRetry)
    /// Nothing with this credential can succeed: raise an alarm, and send nothing with it but an occasional probe.
    ///
    /// Unless others are delivered at the same time: `CredentialHealth` decides.
    case stopCredential(reason: String)
    /// This notification can never succeed: raise an alarm, continue with the others. A flood of them is a
    /// configuration error, which `CredentialHealth` detects.
    case drop(reason: String)
}

/// The verdict on an outcome. Covers every row of the table, and by status class what the table does not have.
///
/// A reason counts only together with the status that it is documented for: nothing is deleted or stopped because of an
/// answer that contradicts itself. 429 asks for patience whatever its body says (RFC 6585 §4), for the device if it
/// names the device, else for the provider: one notification too many costs less than a customer who is not notified.
/// Source: Wallet Orders §4.6
/// - Parameter sentEpochMilliseconds: the time when the attempt began. A 410 without a timestamp retires only
///   registrations older than that, since it cannot refer to later ones.
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
    guard let reason = answer.reason.flatMap(PushReason.init), reason.status == answer.status else {
        return answer.status == 429 || (500...599).contains(answer.status) ? retry(.service) : .drop(reason: text)
    }
    switch reason {
    case .badDeviceToken:
        return .unknownToken
    case .unregistered, .expiredToken:
        return .retire(registeredBeforeMilliseconds: answer.timestampMilliseconds ?? sentEpochMilliseconds)
    case .badTopic, .missingTopic, .topicDisallowed, .badCertificate, .badCertificateEnvironment, .forbidden,
        .invalidProviderToken, .missingProviderToken, .badEnvironmentKeyInToken:
        return .stopCredential(reason: text)
    // One device can register with a token of another app: that must not stop the others.
    case .deviceTokenNotForTopic:
        return .drop(reason: text)
    case .badCollapseID, .badExpirationDate, .badMessageID, .badPriority, .invalidPushType, .duplicateHeaders,
        .missingDeviceToken, .payloadEmpty, .badPath, .methodNotAllowed, .payloadTooLarge:
        return .drop(reason: text)
    // The client has replaced the connection or the token, or both; or keeps the token that APNs wants it to keep.
    case .idleTimeout, .shutdown, .expiredProviderToken, .unrelatedKeyIDInToken, .tooManyProviderTokenUpdates:
        return retry(.connection)
    case .tooManyRequests:
        return retry(.device)
    case .internalServerError, .serviceUnavailable:
        return retry(.service)
    }
}

/// Repeating is harmless even where APNs may have processed the request: the notification only says that something
/// changed.
private func verdict(of error: APNSError) -> PushVerdict {
    let scope: PushRetry.Scope
    switch error.code {
    // The connection is gone or accepted no more requests, or only the stream failed: another connection may work.
    case .connectionLost, .protocolViolation, .silent, .timeout, .closed: scope = .connection
    // Nothing was sent: APNs cannot be reached at the moment, or too much is queued for it.
    case .notStarted, .connecting, .tls, .queueFull: scope = .service
    case .configuration, .credential: return .stopCredential(reason: error.message)
    }
    return .retry(PushRetry(reason: error.message, scope: scope, cause: .error(error.code)))
}
