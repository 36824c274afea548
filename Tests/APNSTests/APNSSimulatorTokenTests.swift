import Foundation
import Testing

@testable import TestKit

@Suite struct APNSSimulatorTokenTests {
    /// Source: RFC 6979 §A.2.5 (P-256, SHA-256, message "sample")
    static let point = bytes(
        "60FED4BA255A9D31C961EB74C6356D68C049B8923B61FA6CE669622E60F29FB6"
            + "7903FE1008B8BC99A41AE9E95628BC64F2F1B20C2D7E9F5177A3C294D4462299")
    static let signature = bytes(
        "EFD48B2AACB6A8FD1140DD9CD45E81D69D2C877B56AAF991C34D0EA84EAF3716"
            + "F7CB1C942D657C41D436C7A1B6E29F65F3E900DBB9AFF4064DC4AB2F843ACDA8")
    static let now: Int64 = 1_700_000_000

    static func bytes(_ hexadecimal: String) -> [UInt8] {
        let digits = hexadecimal.compactMap(\.hexDigitValue)
        return stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] * 16 + digits[$0 + 1]) }
    }

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

    @Test func theSignatureOfTheStandardVerifiesAndNoOther() throws {
        let key = try #require(APNSSimulatorES256(point: Self.point))
        let message = Array("sample".utf8)
        #expect(key.verifies(Self.signature, of: message))
        #expect(!key.verifies(Self.signature, of: Array("Sample".utf8)))
        #expect(!key.verifies([UInt8](repeating: 0, count: 64), of: message))
        #expect(!key.verifies([UInt8](repeating: 0xFF, count: 64), of: message))
        #expect(!key.verifies(Array(Self.signature.dropLast()), of: message))
        for index in stride(from: 0, to: 64, by: 9) {
            var wrong = Self.signature
            wrong[index] ^= 1
            #expect(!key.verifies(wrong, of: message))
        }
    }

    @Test func aPointBesideTheCurveIsNoKey() {
        var wrong = Self.point
        wrong[63] ^= 1
        #expect(APNSSimulatorES256(point: wrong) == nil)
        #expect(APNSSimulatorES256(point: [UInt8](repeating: 0, count: 64)) == nil)
        #expect(APNSSimulatorES256(point: [UInt8](repeating: 0xFF, count: 64)) == nil)
        #expect(APNSSimulatorES256(point: []) == nil)
    }

    @Test(arguments: [0, 1, 55, 56, 63, 64, 119, 120, 200])
    func theDigestIsWhatItWasWhenLastComparedWithOpenSSL(_ length: Int) throws {
        let directory = FileManager.default.temporaryDirectory.path + "/waybill-digest-\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let message = (0..<length).map { UInt8($0) }
        #expect(FileManager.default.createFile(atPath: directory, contents: Data(message)))
        let said = try OpenSSLProgram.run(["dgst", "-sha256", "-r", directory])
        #expect(Self.bytes(String(said.prefix(64))) == APNSSimulatorSHA256.digest(message))
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
    func aTokenHasAFormAndAnAge(_ authorization: String?, _ reason: String?) {
        var check = APNSSimulatorTokenCheck(keys: [])
        var history = APNSSimulatorTokenHistory()
        let refusal = check.refusal(of: authorization, history: &history, nowEpochSeconds: Self.now)
        #expect(refusal == reason.map { APNSSimulatorAnswer(403, $0) })
        #expect(history.isProven == (reason == nil))
    }

    @Test func oneConnectionTakesANewTokenEveryTwentyMinutesAndKeepsItsKeyAndTeam() {
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

    @Test func aCertificateThatIsNoneHasNoTopic() {
        #expect(APNSSimulatorDER.userIdentifier(certificate: []) == nil)
        #expect(APNSSimulatorDER.userIdentifier(certificate: [0x30, 0x84, 0xFF, 0xFF, 0xFF, 0xFF]) == nil)
        #expect(APNSSimulatorDER.userIdentifier(certificate: [0x30, 0x02, 0x30, 0x7F]) == nil)
        #expect(APNSSimulatorDER.value([0x30, 0x80]) == nil)
    }
}
