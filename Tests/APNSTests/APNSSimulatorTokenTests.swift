import Foundation
import Testing

@testable import TestKit

@Suite struct APNSSimulatorTokenTests {
    static let now: Int64 = 1_700_000_000

    static func base64URL(_ bytes: some Sequence<UInt8>) -> String {
        Data(bytes).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }

    static func authorization(
        header: String = #"{"alg":"ES256","kid":"KEY1234567"}"#, team: String = "TEAM123456", issued: Int64 = now,
        signature: [UInt8] = [UInt8](repeating: 1, count: 64), scheme: String = "bearer"
    ) -> String {
        let claims = #"{"iss":"\#(team)","iat":\#(issued)}"#
        return "\(scheme) \(Self.base64URL(header.utf8)).\(Self.base64URL(claims.utf8)).\(Self.base64URL(signature))"
    }

    @Test(
        arguments: [
            (nil, "MissingProviderToken"), ("", "InvalidProviderToken"), ("bearer", "InvalidProviderToken"),
            ("bearer a.b.c", "InvalidProviderToken"), ("bearer a.b", "InvalidProviderToken"),
            (authorization(scheme: "basic"), "InvalidProviderToken"),
            (authorization(header: #"{"alg":"HS256","kid":"KEY1234567"}"#), "InvalidProviderToken"),
            (authorization(header: #"{"alg":"ES256"}"#), "InvalidProviderToken"),
            (authorization(header: #"{"alg":"ES256","kid":"SHORT"}"#), "InvalidProviderToken"),
            (authorization(team: "TEAM"), "InvalidProviderToken"),
            (authorization(signature: [1, 2, 3]), "InvalidProviderToken"),
            (authorization() + "=", "InvalidProviderToken"),
            (authorization(issued: now + 301), "InvalidProviderToken"),
            (authorization(issued: now - 3601), "ExpiredProviderToken"),
            (authorization(issued: now - 3600), nil), (authorization(issued: now + 300), nil),
            (authorization(scheme: "Bearer"), nil),
        ] as [(String?, String?)])
    func aMalformedOrExpiredTokenIsRefused(_ authorization: String?, _ reason: String?) {
        var check = APNSSimulatorTokenCheck(keys: [])
        var history = APNSSimulatorTokenHistory()
        let refusal = check.refusal(of: authorization, history: &history, nowEpochSeconds: Self.now)
        #expect(refusal == reason.map { APNSSimulatorAnswer(403, $0) })
        #expect(history.isProven == (reason == nil))
    }

    @Test func aConnectionAcceptsANewTokenOnlyAfterTwentyMinutes() {
        var check = APNSSimulatorTokenCheck(keys: [])
        var history = APNSSimulatorTokenHistory()
        func reason(_ authorization: String, at seconds: Int64) -> String? {
            check.refusal(of: authorization, history: &history, nowEpochSeconds: seconds)?.reason
        }
        let first = Self.authorization()
        let second = Self.authorization(issued: Self.now + 1)
        #expect(reason(first, at: Self.now) == nil)
        #expect(reason(second, at: Self.now + 1199) == "TooManyProviderTokenUpdates")
        #expect(reason(first, at: Self.now + 1199) == nil)
        let other = Self.authorization(header: #"{"alg":"ES256","kid":"KEY7654321"}"#)
        #expect(reason(other, at: Self.now + 1200) == "UnrelatedKeyIdInToken")
        #expect(reason(Self.authorization(team: "TEAM654321"), at: Self.now + 1200) == "InvalidProviderToken")
        #expect(reason(second, at: Self.now + 1200) == nil)
        #expect(reason(second, at: Self.now + 3602) == "ExpiredProviderToken")
    }

    @Test func keysInBadFormAreRefused() {
        for pem in [
            "", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "-----BEGIN PRIVATE KEY-----",
        ] {
            #expect(throws: APNSSimulatorError.self) {
                try APNSSimulatorProviderKey(pem: Array(pem.utf8), keyIdentifier: "KEY1234567", team: "TEAM123456")
            }
        }
    }
}
