extension PushReason {
    /// Advice for a person who reads an alarm or a dead letter.
    ///
    /// Source: Wallet Orders §4.4 to §4.6
    public var advice: String {
        switch self {
        case .badDeviceToken:
            "the push token is of another environment: compare WAYBILL_APNS_URL with the brand's certificate or key"
        case .deviceTokenNotForTopic:
            "the push token belongs to another app or order type: if many say so, the brand's credential is another's"
        case .badTopic, .missingTopic, .topicDisallowed:
            "the certificate or key may not notify for this order type: check which order type it was made for"
        case .badCertificate: "the certificate is revoked, expired or damaged: renew it in the brand"
        case .badCertificateEnvironment: "the certificate is for another environment: check WAYBILL_APNS_URL"
        case .badEnvironmentKeyInToken: "the key is for another environment: check WAYBILL_APNS_URL and the key"
        case .forbidden: "the credential is not allowed to do this: check it in the developer account"
        case .invalidProviderToken, .missingProviderToken:
            "APNs does not take the provider token: check key, keyIdentifier and teamIdentifier of the brand"
        case .expiredProviderToken: "the provider token is too old for APNs: check the clock of this machine"
        case .unrelatedKeyIDInToken: "another key was used on the same connection: a new connection mends it"
        case .tooManyProviderTokenUpdates: "the provider token was renewed too often: it is kept for 20 minutes"
        case .tooManyRequests: "too many notifications to one device: lower WAYBILL_PUSH_HOURLY_LIMIT if it lasts"
        case .badCollapseID, .badExpirationDate, .badPriority, .invalidPushType:
            "APNs does not take this header: check the brand's push options"
        case .badMessageID, .duplicateHeaders, .missingDeviceToken, .payloadEmpty, .payloadTooLarge, .badPath,
            .methodNotAllowed:
            "the request was malformed, which is a mistake of the pusher: report it"
        case .unregistered, .expiredToken: "the device no longer accepts notifications: nothing to do"
        case .idleTimeout, .internalServerError, .serviceUnavailable, .shutdown:
            "APNs could not take it: see Apple's system status if it lasts"
        }
    }
}
