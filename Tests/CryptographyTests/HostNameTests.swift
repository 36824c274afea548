import Testing

@testable import Cryptography

@Suite struct HostNameTests {
    @Test(arguments: [
        ("api.push.apple.com", "api.push.apple.com", true), ("API.push.apple.com", "api.PUSH.apple.com", true),
        ("api.push.apple.com.", "api.push.apple.com", true), ("api.push.apple.com", "*.push.apple.com", true),
        ("localhost", "localhost", true), ("push.apple.com", "*.push.apple.com", false),
        ("a.api.push.apple.com", "*.push.apple.com", false), ("api.push.apple.com", "*.*.apple.com", false),
        ("api.push.apple.com", "a*.push.apple.com", false), ("apple.com", "*.com", false), ("com", "*", false),
        ("api.push.apple.com", "api.push.apple.com.evil.example", false), ("api.push.apple.com", "", false),
        ("", "", false), (".", ".", false), ("a..b", "a..b", false), ("127.0.0.1", "localhost", false),
    ])
    func aCertificateNameMatchesOnlyItsHosts(_ host: String, _ name: String, _ expected: Bool) {
        #expect(isHost(host, named: Array(name.utf8)) == expected)
    }
}
