/// The action to take after a notification's outcome.
public enum PushVerdict: Hashable, Sendable {
    /// APNs accepted the notification.
    case delivered
    /// The push token is no longer valid: delete it if it was registered before this moment, in milliseconds since
    /// 1970.
    ///
    /// Only an entry that is still stored as it was looked up is deleted; a device that has registered again stays.
    case retire(registeredBeforeMilliseconds: Int64)
    /// APNs does not know the push token (BadDeviceToken): it is garbage, or belongs to the other environment.
    ///
    /// One answer cannot distinguish the two, so `TokenBreaker` decides about deleting the token.
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
/// A reason counts only together with the status that Apple documents for it: nothing is deleted or stopped because of
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
