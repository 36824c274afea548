/// The reasons that Apple documents, each with its statuses.
///
/// Source: Wallet Orders §4.6
public enum PushReason: String, Hashable, Sendable, CaseIterable {
    case badCollapseID = "BadCollapseId"
    case badDeviceToken = "BadDeviceToken"
    case badExpirationDate = "BadExpirationDate"
    case badMessageID = "BadMessageId"
    case badPriority = "BadPriority"
    case badTopic = "BadTopic"
    case deviceTokenNotForTopic = "DeviceTokenNotForTopic"
    case duplicateHeaders = "DuplicateHeaders"
    case idleTimeout = "IdleTimeout"
    case invalidPushType = "InvalidPushType"
    case missingDeviceToken = "MissingDeviceToken"
    case missingTopic = "MissingTopic"
    case payloadEmpty = "PayloadEmpty"
    case topicDisallowed = "TopicDisallowed"
    case badCertificate = "BadCertificate"
    case badCertificateEnvironment = "BadCertificateEnvironment"
    case expiredProviderToken = "ExpiredProviderToken"
    case forbidden = "Forbidden"
    case invalidProviderToken = "InvalidProviderToken"
    case missingProviderToken = "MissingProviderToken"
    case unrelatedKeyIDInToken = "UnrelatedKeyIdInToken"
    case badEnvironmentKeyInToken = "BadEnvironmentKeyInToken"
    case badPath = "BadPath"
    case methodNotAllowed = "MethodNotAllowed"
    case expiredToken = "ExpiredToken"
    case unregistered = "Unregistered"
    case payloadTooLarge = "PayloadTooLarge"
    case tooManyProviderTokenUpdates = "TooManyProviderTokenUpdates"
    case tooManyRequests = "TooManyRequests"
    case internalServerError = "InternalServerError"
    case serviceUnavailable = "ServiceUnavailable"
    case shutdown = "Shutdown"

    /// Apple's documents and servers spell one reason differently.
    private static let otherSpellings = ["BadEnvironmentKeyIdInToken": PushReason.badEnvironmentKeyInToken]

    /// Finds the reason that an answer names; nil for one that Apple does not document.
    public init?(named name: String) {
        guard let reason = PushReason(rawValue: name) ?? Self.otherSpellings[name] else { return nil }
        self = reason
    }

    /// All statuses that Apple documents, or once documented, for the reason, the present one first.
    public var statuses: [Int] { self == .expiredToken ? [self.status, 400] : [self.status] }

    /// The status that Apple documents for the reason at present.
    public var status: Int {
        switch self {
        case .badCollapseID, .badDeviceToken, .badExpirationDate, .badMessageID, .badPriority, .badTopic,
            .deviceTokenNotForTopic, .duplicateHeaders, .idleTimeout, .invalidPushType, .missingDeviceToken,
            .missingTopic, .payloadEmpty, .topicDisallowed:
            400
        case .badCertificate, .badCertificateEnvironment, .expiredProviderToken, .forbidden, .invalidProviderToken,
            .missingProviderToken, .unrelatedKeyIDInToken, .badEnvironmentKeyInToken:
            403
        case .badPath: 404
        case .methodNotAllowed: 405
        case .expiredToken, .unregistered: 410
        case .payloadTooLarge: 413
        case .tooManyProviderTokenUpdates, .tooManyRequests: 429
        case .internalServerError: 500
        case .serviceUnavailable, .shutdown: 503
        }
    }

    /// Returns a received reason in a form fit for logs and dead letters: Apple's reasons are single words.
    ///
    /// Replaces any other text that an unknown server sends as a reason, such as a push token.
    public static func word(_ text: String) -> String {
        let isWord = (1...40).contains(text.utf8.count) && text.utf8.allSatisfy(isASCIILetter)
        return isWord ? text : "with an unreadable reason"
    }
}

private func isASCIILetter(_ byte: UInt8) -> Bool {
    (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) || (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte)
}

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
        case .unregistered:
            "the device does not accept notifications with this push token: nothing to do until it registers another"
        case .expiredToken:
            "the push token is out of date: if many are, see what answers in APNs' place, and compare WAYBILL_APNS_URL"
        case .idleTimeout, .internalServerError, .serviceUnavailable, .shutdown:
            "APNs could not take it: see Apple's system status if it lasts"
        }
    }
}
