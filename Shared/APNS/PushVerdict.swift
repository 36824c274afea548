/// What is to be done after a notification's outcome.
public enum PushVerdict: Hashable, Sendable {
    /// APNs took it.
    case delivered
    /// The push token is gone: delete it if it was registered before this moment, in milliseconds since 1970.
    ///
    /// Only what is still stored as it was looked up; who registered again meanwhile stays.
    case retire(registeredBeforeMilliseconds: Int64)
    /// APNs does not know the push token (BadDeviceToken): it is garbage, or we ask the wrong environment.
    ///
    /// One answer cannot tell which, so `TokenBreaker` decides whether the token is deleted.
    case unknownToken
    /// Send it again later.
    case retry(PushRetry)
    /// Nothing with this credential can succeed: alarm, and send no more with it but a probe now and then.
    ///
    /// Unless others are delivered at the same time: `CredentialHealth` decides.
    case stopCredential(reason: String)
    /// This notification can never succeed: alarm, go on with the others. A flood of them is a configuration error,
    /// which `CredentialHealth` notices.
    case drop(reason: String)
}

/// The verdict on an outcome. Every row of the table, and by status class what the table does not have.
///
/// A reason counts only together with the status that it is documented for: nothing is deleted or stopped on an
/// answer that contradicts itself. 429 asks for patience whatever its body says (RFC 6585 §4), the device if it names
/// it, else the provider: to send once more too often costs less than a customer who is not told.
/// Source: Wallet Orders §4.6
/// - Parameter sentEpochMilliseconds: when the attempt began. A 410 without its moment retires only what was registered
///   before that, since it cannot speak of what came later.
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
    // The connection is gone or took no more, or the stream alone failed: another one may do.
    case .connectionLost, .protocolViolation, .silent, .timeout, .closed: scope = .connection
    // Nothing was sent: there is no way to APNs now, or too much waits for it.
    case .notStarted, .connecting, .tls, .queueFull: scope = .service
    case .configuration, .credential: return .stopCredential(reason: error.message)
    }
    return .retry(PushRetry(reason: error.message, scope: scope, cause: .error(error.code)))
}
