import Foundation
import Model
import Synchronization
import Testing

@testable import APNS

@Suite struct ProviderTokenTests {
    /// A source whose clock and key are controlled by the test.
    private final class Key: Sendable {
        let now = Mutex<Int64>(1_700_000_000)
        let signed = Mutex<[[UInt8]]>([])
        let isBroken = Mutex(false)

        func source(jitter: Double = 0) -> ProviderTokenSource {
            ProviderTokenSource(
                keyIdentifier: "KEY1234567", teamIdentifier: "TEAM123456",
                sign: { content in
                    if self.isBroken.withLock({ $0 }) { throw APNSError(.configuration, "broken key") }
                    self.signed.withLock { $0.append(content) }
                    return Array(repeating: 0xFB, count: 64)
                },
                epochSeconds: { self.now.withLock { $0 } }, jitter: { jitter })
        }

        func advance(_ seconds: Int64) { self.now.withLock { $0 += seconds } }
        var count: Int { self.signed.withLock { $0.count } }
    }

    @Test func theTokenIsAJWTWithTwoClaims() throws {
        let key = Key()
        let value = try key.source().authorization().value
        let text = String(decoding: value, as: UTF8.self)
        #expect(text.hasPrefix("bearer "))
        let parts = text.dropFirst(7).split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        try #require(parts.count == 3)
        #expect(try decode(parts[0]) == Array(#"{"alg":"ES256","kid":"KEY1234567"}"#.utf8))
        #expect(try decode(parts[1]) == Array(#"{"iss":"TEAM123456","iat":1700000000}"#.utf8))
        #expect(try decode(parts[2]) == Array(repeating: 0xFB, count: 64))
        #expect(key.signed.withLock { $0 } == [Array("\(parts[0]).\(parts[1])".utf8)])
    }

    @Test func aTokenIssuedOverAMinuteAheadIsReplaced() throws {
        let key = Key()
        let source = key.source()
        let first = try source.authorization().version
        // A clock that is set back a little: APNs may tolerate that.
        key.advance(-60)
        #expect(try source.authorization().version == first)
        key.advance(-1)
        #expect(try source.authorization().version == first + 1)
        #expect(key.count == 2)
    }

    @Test(arguments: [(0.0, Int64(2400)), (0.5, 2700), (1.0, 3000)])
    func aTokenIsKeptForFortyToFiftyMinutes(_ jitter: Double, _ seconds: Int64) throws {
        let key = Key()
        let source = key.source(jitter: jitter)
        let first = try source.authorization().version
        key.advance(seconds - 1)
        #expect(try source.authorization().version == first)
        key.advance(1)
        #expect(try source.authorization().version == first + 1)
        #expect(key.count == 2)
    }

    @Test func anExpiredTokenIsReplacedButNotWithin20Minutes() throws {
        let key = Key()
        let source = key.source()
        let first = try source.authorization().version
        source.expired(version: first)
        #expect(try source.authorization().version == first, "too young")
        key.advance(20 * 60)
        #expect(try source.authorization().version == first + 1)
        source.expired(version: first)
        key.advance(20 * 60)
        #expect(try source.authorization().version == first + 1, "that was about the old one")
    }

    @Test func aClockSetBackFarMintsANewToken() throws {
        let key = Key()
        let source = key.source()
        _ = try source.authorization()
        key.advance(-60)
        _ = try source.authorization()
        #expect(key.count == 1)
        key.advance(-3600)
        _ = try source.authorization()
        #expect(key.count == 2)
    }

    @Test func aBrokenKeyKeepsTheOldTokenForAnHour() throws {
        let key = Key()
        let source = key.source()
        let first = try source.authorization().version
        key.isBroken.withLock { $0 = true }
        key.advance(3600)
        #expect(try source.authorization().version == first)
        key.advance(1)
        #expect(throws: APNSError(.credential, "")) { try source.authorization() }
    }

    /// Decodes with Foundation's Base64, independently of the code under test.
    private func decode(_ text: String) throws -> [UInt8] {
        var base64 = text.replacingOccurrences(of: "-", with: "+").replacingOccurrences(of: "_", with: "/")
        #expect(!base64.contains("="))
        while base64.count % 4 != 0 { base64 += "=" }
        return Array(try #require(Data(base64Encoded: base64)))
    }
}
