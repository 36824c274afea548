import APNS
import Testing

@Suite struct PushVerdictTests {
    /// The expected verdict of a table row; the text of the reason is checked alike for all rows.
    private enum Row: Hashable {
        case delivered, retire, unknownToken, device, connection, service, stop, drop
    }

    /// The table of Wallet Orders §4.6, row by row.
    private static let rows: [(Int, String, Row)] = [
        (400, "BadDeviceToken", .unknownToken),
        (400, "ExpiredToken", .unknownToken),
        (400, "DeviceTokenNotForTopic", .drop),
        (400, "BadTopic", .stop),
        (400, "MissingTopic", .stop),
        (400, "TopicDisallowed", .stop),
        (400, "BadCollapseId", .drop),
        (400, "BadExpirationDate", .drop),
        (400, "BadMessageId", .drop),
        (400, "BadPriority", .drop),
        (400, "InvalidPushType", .drop),
        (400, "DuplicateHeaders", .drop),
        (400, "MissingDeviceToken", .drop),
        (400, "PayloadEmpty", .drop),
        (400, "IdleTimeout", .connection),
        (403, "BadCertificate", .stop),
        (403, "BadCertificateEnvironment", .stop),
        (403, "ExpiredProviderToken", .connection),
        (403, "InvalidProviderToken", .stop),
        (403, "MissingProviderToken", .stop),
        (403, "Forbidden", .stop),
        (403, "UnrelatedKeyIdInToken", .connection),
        (403, "BadEnvironmentKeyInToken", .stop),
        (404, "BadPath", .drop),
        (405, "MethodNotAllowed", .drop),
        (410, "Unregistered", .retire),
        (410, "ExpiredToken", .retire),
        (413, "PayloadTooLarge", .drop),
        (429, "TooManyRequests", .device),
        (429, "TooManyProviderTokenUpdates", .connection),
        (500, "InternalServerError", .service),
        (503, "ServiceUnavailable", .service),
        (503, "Shutdown", .connection),
    ]

    /// Every error code of a request without an answer, with its expected verdict.
    private static let codes: [APNSError.Code: Row] = [
        .timeout: .connection, .silent: .connection, .connectionLost: .connection, .protocolViolation: .connection,
        .closed: .connection, .notStarted: .service, .connecting: .service, .tls: .service, .queueFull: .service,
        .configuration: .stop, .credential: .stop,
    ]

    /// Returns the row of a verdict, and its reason.
    private static func row(_ verdict: PushVerdict) -> (Row, reason: String?) {
        switch verdict {
        case .delivered: (.delivered, nil)
        case .retire: (.retire, nil)
        case .unknownToken: (.unknownToken, nil)
        case .retry(let retry):
            switch retry.scope {
            case .device: (.device, retry.reason)
            case .connection: (.connection, retry.reason)
            case .service: (.service, retry.reason)
            }
        case .stopCredential(let reason): (.stop, reason)
        case .drop(let reason): (.drop, reason)
        }
    }

    private static func judge(_ status: Int, _ reason: String?) -> (Row, reason: String?) {
        let answer = PushAnswer(status: status, reason: reason, timestampMilliseconds: 1, apnsID: "x")
        return self.row(verdict(of: .answered(answer)))
    }

    @Test func eachRowOfTheTableHasItsVerdict() {
        for (status, reason, expected) in Self.rows {
            let (row, text) = Self.judge(status, reason)
            #expect(row == expected, "\(status) \(reason)")
            #expect(text == nil || text == "\(status) \(reason)")
        }
        #expect(verdict(of: .answered(PushAnswer(status: 200))) == .delivered)
        // Status 200 means delivered, whatever the body.
        #expect(verdict(of: .answered(PushAnswer(status: 200, reason: "BadTopic"))) == .delivered)
    }

    @Test func theTableHasEveryReasonThatAppleDocuments() {
        let documented = PushReason.allCases.flatMap { reason in reason.statuses.map { "\($0) \(reason.rawValue)" } }
        #expect(Set(Self.rows.map { "\($0.0) \($0.1)" }) == Set(documented))
        #expect(Self.rows.count == documented.count)
        #expect(PushReason.allCases.allSatisfy { $0.status == $0.statuses.first })
        #expect(Self.judge(403, "BadEnvironmentKeyIdInToken") == (.stop, "403 BadEnvironmentKeyIdInToken"))
        #expect(Set(Self.codes.keys) == Set(APNSError.Code.allCases))
    }

    @Test func anUnknownReasonIsJudgedByItsStatus() {
        for reason in [nil, "New"] {
            let end = reason ?? "without a reason"
            for status in [0, 100, 201, 204, 301, 400, 401, 403, 404, 405, 410, 413, 428, 430, 499, 600, 999] {
                #expect(Self.judge(status, reason) == (.drop, "\(status) \(end)"))
            }
            for status in [500, 501, 502, 503, 504, 599] {
                #expect(Self.judge(status, reason) == (.service, "\(status) \(end)"))
            }
            // The answer names no device, so it concerns the provider.
            #expect(Self.judge(429, reason) == (.service, "429 \(end)"))
        }
    }

    /// A proxy, another server or a middlebox says nothing about a notification.
    @Test func anAnswerThatIsNotOfAPNsIsTheServicesFault() {
        for reason in [nil, "New", "BadDeviceToken", "Unregistered"] {
            for status in [0, 100, 201, 204, 301, 401, 403, 404, 405, 407, 413, 421, 428, 451, 499, 600] {
                let foreign = PushAnswer(status: status, reason: reason, retryAfterSeconds: 9_999)
                guard case .retry(let retry) = verdict(of: .answered(foreign)) else {
                    Issue.record("\(status) \(reason ?? "")")
                    continue
                }
                #expect(retry.scope == .service)
                #expect(retry.cause == .foreign(status: status))
                #expect(retry.afterSeconds == nil, "APNs did not ask for it")
                #expect(retry.reason.contains("not an answer of APNs"))
            }
        }
        for (status, reason, expected) in Self.rows {
            let answer = PushAnswer(status: status, reason: reason, timestampMilliseconds: 1)
            #expect(!answer.isForeign)
            #expect(Self.row(verdict(of: .answered(answer))).0 == expected, "a documented reason is enough")
        }
        for status in [200, 429, 500, 503, 599] { #expect(!PushAnswer(status: status).isForeign) }
    }

    @Test func aReasonContradictingItsStatusIsDroppedOrRetried() {
        for reason in PushReason.allCases {
            for status in [400, 403, 404, 405, 410, 413, 418, 429, 500, 503] where !reason.statuses.contains(status) {
                let expected: Row = status >= 500 || status == 429 ? .service : .drop
                #expect(Self.judge(status, reason.rawValue) == (expected, "\(status) \(reason.rawValue)"))
            }
        }
    }

    @Test func aMissingAnswerIsRetriedUnlessTheSetupIsWrong() {
        for (code, expected) in Self.codes {
            let verdict = verdict(of: .unanswered(APNSError(code, "why")))
            #expect(Self.row(verdict) == (expected, "why"))
            guard case .retry(let retry) = verdict else { continue }
            #expect(retry.cause == .error(code))
            #expect(retry.afterSeconds == nil)
        }
    }

    @Test func aTokenIsRetiredAsOfTheMomentThatAPNsSays() {
        for reason in ["Unregistered", "ExpiredToken"] {
            for moment: Int64 in [.min, 0, 1_700_000_000_123, .max] {
                let answer = PushAnswer(status: 410, reason: reason, timestampMilliseconds: moment)
                #expect(
                    verdict(of: .answered(answer), sentEpochMilliseconds: 5)
                        == .retire(registeredBeforeMilliseconds: moment))
            }
        }
    }

    @Test func a410WithoutATimestampRetiresAsOfTheSendTime() {
        let answer = PushAnswer(status: 410, reason: "Unregistered")
        #expect(
            verdict(of: .answered(answer), sentEpochMilliseconds: 7) == .retire(registeredBeforeMilliseconds: 7))
        #expect(verdict(of: .answered(answer)) == .retire(registeredBeforeMilliseconds: .max))
    }

    @Test func retryAfterFromAPNsIsPassedOn() {
        for (status, reason) in [(429, "TooManyRequests"), (503, "ServiceUnavailable"), (503, "Shutdown"), (502, nil)] {
            let answer = PushAnswer(status: status, reason: reason, retryAfterSeconds: 17)
            guard case .retry(let retry) = verdict(of: .answered(answer)) else {
                Issue.record("\(status) is repeated")
                continue
            }
            #expect(retry.afterSeconds == 17)
            #expect(retry.cause == .answer(status: status))
        }
    }

    @Test func anUnreadableReasonStaysOutOfLogs() {
        let token = String(repeating: "0123456789abcdef", count: 4)
        for reason in [token, "", "two words", "a\nb", String(repeating: "A", count: 41), "schön"] {
            for status in [400, 429, 500] {
                #expect(Self.judge(status, reason).reason == "\(status) with an unreadable reason")
            }
        }
    }

    @Test func everyReasonComesWithAdvice() {
        for reason in PushReason.allCases {
            #expect(reason.advice.count > 20, "\(reason)")
            #expect(!reason.advice.hasSuffix("."), "\(reason)")
        }
    }
}
