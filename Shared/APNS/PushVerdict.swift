/// What is to be done after a notification's outcome.
public enum PushVerdict: Hashable, Sendable {
    /// APNs took it.
    case delivered
    /// The push token is not valid.
    ///
    /// With a moment: delete it if it was registered before. Without (BadDeviceToken): APNs may as well be the wrong
    /// one for us,
    /// so delete it only where other pushes with the same credential succeed, and never many at once.
    case retire(registeredBeforeMilliseconds: Int64?)
    /// Send it again later.
    case retry(reason: String)
    /// Nothing with this credential can succeed: alarm, and send no more with it until somebody has looked.
    case stopCredential(reason: String)
    /// This notification can never succeed: alarm, go on with the others.
    case drop(reason: String)
}

/// The verdict on an outcome. Every row of the table, and by status class what the table does not have.
///
/// A reason counts only together with the status that it is documented for: nothing is deleted or stopped on an
/// answer that
/// contradicts itself.
/// Source: Wallet Orders §4.6
public func verdict(of outcome: PushOutcome) -> PushVerdict {
    switch outcome {
    case .unanswered(let error): verdict(of: error)
    case .answered(let answer): verdict(of: answer)
    }
}

private func verdict(of answer: PushAnswer) -> PushVerdict {
    if answer.status == 200 { return .delivered }
    let text = "\(answer.status) \(answer.reason ?? "without a reason")"
    guard let reason = answer.reason.flatMap(PushReason.init), reason.status == answer.status else {
        return (500...599).contains(answer.status) ? .retry(reason: text) : .drop(reason: text)
    }
    switch reason {
    case .badDeviceToken:
        return .retire(registeredBeforeMilliseconds: nil)
    case .unregistered, .expiredToken:
        // Without its moment the answer still says that the token is gone.
        return .retire(registeredBeforeMilliseconds: answer.timestampMilliseconds ?? .max)
    case .badTopic, .missingTopic, .topicDisallowed, .badCertificate, .badCertificateEnvironment, .forbidden,
        .invalidProviderToken, .missingProviderToken, .badEnvironmentKeyInToken:
        return .stopCredential(reason: text)
    // One device can register with a token of another app: that must not stop the others.
    case .deviceTokenNotForTopic:
        return .drop(reason: text)
    case .badCollapseID, .badExpirationDate, .badMessageID, .badPriority, .invalidPushType, .duplicateHeaders,
        .missingDeviceToken, .payloadEmpty, .badPath, .methodNotAllowed, .payloadTooLarge:
        return .drop(reason: text)
    // The client has replaced the connection or the token, or both.
    case .idleTimeout, .shutdown, .expiredProviderToken, .unrelatedKeyIDInToken:
        return .retry(reason: text)
    case .tooManyRequests, .tooManyProviderTokenUpdates, .internalServerError, .serviceUnavailable:
        return .retry(reason: text)
    }
}

/// Repeating is harmless even where APNs may have processed the request: the notification only says that something
/// changed.
private func verdict(of error: APNSError) -> PushVerdict {
    switch error.code {
    case .timeout, .silent, .notStarted, .connectionLost, .connecting, .tls, .protocolViolation, .queueFull, .closed:
        .retry(reason: error.message)
    case .configuration, .credential:
        .stopCredential(reason: error.message)
    }
}
