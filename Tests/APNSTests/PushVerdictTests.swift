import APNS
import Testing

@Suite struct PushVerdictTests {
    /// Wallet Orders §4.6, row by row.
    private static let rows: [(Int, String?, PushVerdict)] = [
        (200, nil, .delivered),
        (400, "BadDeviceToken", .retire(registeredBeforeMilliseconds: nil)),
        (400, "DeviceTokenNotForTopic", .drop(reason: "400 DeviceTokenNotForTopic")),
        (400, "BadTopic", .stopCredential(reason: "400 BadTopic")),
        (400, "MissingTopic", .stopCredential(reason: "400 MissingTopic")),
        (400, "TopicDisallowed", .stopCredential(reason: "400 TopicDisallowed")),
        (400, "BadCollapseId", .drop(reason: "400 BadCollapseId")),
        (400, "BadExpirationDate", .drop(reason: "400 BadExpirationDate")),
        (400, "BadMessageId", .drop(reason: "400 BadMessageId")),
        (400, "BadPriority", .drop(reason: "400 BadPriority")),
        (400, "InvalidPushType", .drop(reason: "400 InvalidPushType")),
        (400, "DuplicateHeaders", .drop(reason: "400 DuplicateHeaders")),
        (400, "MissingDeviceToken", .drop(reason: "400 MissingDeviceToken")),
        (400, "PayloadEmpty", .drop(reason: "400 PayloadEmpty")),
        (400, "IdleTimeout", .retry(reason: "400 IdleTimeout")),
        (403, "BadCertificate", .stopCredential(reason: "403 BadCertificate")),
        (403, "BadCertificateEnvironment", .stopCredential(reason: "403 BadCertificateEnvironment")),
        (403, "ExpiredProviderToken", .retry(reason: "403 ExpiredProviderToken")),
        (403, "InvalidProviderToken", .stopCredential(reason: "403 InvalidProviderToken")),
        (403, "MissingProviderToken", .stopCredential(reason: "403 MissingProviderToken")),
        (403, "Forbidden", .stopCredential(reason: "403 Forbidden")),
        (403, "UnrelatedKeyIdInToken", .retry(reason: "403 UnrelatedKeyIdInToken")),
        (403, "BadEnvironmentKeyInToken", .stopCredential(reason: "403 BadEnvironmentKeyInToken")),
        (404, "BadPath", .drop(reason: "404 BadPath")),
        (405, "MethodNotAllowed", .drop(reason: "405 MethodNotAllowed")),
        (410, "Unregistered", .retire(registeredBeforeMilliseconds: 1_700_000_000_123)),
        (410, "ExpiredToken", .retire(registeredBeforeMilliseconds: 1_700_000_000_123)),
        (413, "PayloadTooLarge", .drop(reason: "413 PayloadTooLarge")),
        (429, "TooManyRequests", .retry(reason: "429 TooManyRequests")),
        (429, "TooManyProviderTokenUpdates", .retry(reason: "429 TooManyProviderTokenUpdates")),
        (500, "InternalServerError", .retry(reason: "500 InternalServerError")),
        (503, "ServiceUnavailable", .retry(reason: "503 ServiceUnavailable")),
        (503, "Shutdown", .retry(reason: "503 Shutdown")),
    ]

    @Test func eachRowOfTheTableHasItsVerdict() {
        for (status, reason, expected) in Self.rows {
            let answer = PushAnswer(status: status, reason: reason, timestampMilliseconds: 1_700_000_000_123)
            #expect(verdict(of: .answered(answer)) == expected, "\(status) \(reason ?? "")")
        }
    }

    @Test func theTableHasEveryReasonThatAppleDocuments() {
        let covered = Set(Self.rows.compactMap(\.1))
        #expect(covered == Set(PushReason.allCases.map(\.rawValue)))
        for (status, reason, _) in Self.rows {
            if let reason { #expect(PushReason(rawValue: reason)?.status == status) }
        }
    }

    @Test func anUnknownReasonIsJudgedByItsStatus() {
        for status in [400, 403, 404, 410, 429, 499] {
            #expect(verdict(of: .answered(PushAnswer(status: status, reason: "New"))) == .drop(reason: "\(status) New"))
        }
        for status in [500, 502, 503, 599] {
            #expect(
                verdict(of: .answered(PushAnswer(status: status))) == .retry(reason: "\(status) without a reason"))
        }
        for status in [0, 204, 301, 600, 999] {
            #expect(
                verdict(of: .answered(PushAnswer(status: status))) == .drop(reason: "\(status) without a reason"))
        }
    }

    @Test func aReasonThatContradictsItsStatusRetiresAndStopsNothing() {
        for reason in PushReason.allCases {
            for status in [400, 403, 404, 405, 410, 413, 429, 500, 503] where status != reason.status {
                let answer = PushAnswer(status: status, reason: reason.rawValue, timestampMilliseconds: 1)
                switch verdict(of: .answered(answer)) {
                case .retry: #expect(status >= 500)
                case .drop: #expect(status < 500)
                case .delivered, .retire, .stopCredential: Issue.record("\(status) \(reason.rawValue)")
                }
            }
        }
    }

    @Test func withoutAnAnswerOnlyOurOwnFaultsStopTheCredential() {
        for code in APNSError.Code.allCases {
            let expected: PushVerdict =
                [.configuration, .credential].contains(code) ? .stopCredential(reason: "why") : .retry(reason: "why")
            #expect(verdict(of: .unanswered(APNSError(code, "why"))) == expected)
        }
    }
}
