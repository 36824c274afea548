import Testing

@testable import APNS

@Suite struct APNSEndpointTests {
    @Test(arguments: [
        ("https://api.push.apple.com", "api.push.apple.com", 443, "api.push.apple.com"),
        ("https://api.push.apple.com:443", "api.push.apple.com", 443, "api.push.apple.com"),
        ("HTTPS://api.push.apple.com:2197/", "api.push.apple.com", 2197, "api.push.apple.com:2197"),
        ("https://127.0.0.1:1", "127.0.0.1", 1, "127.0.0.1:1"),
        ("https://[::1]:8443", "::1", 8443, "[::1]:8443"),
        ("https://[fe80::1]", "fe80::1", 443, "[fe80::1]"),
    ])
    func aURLIsRead(_ url: String, _ host: String, _ port: Int, _ authority: String) throws {
        let endpoint = try APNSEndpoint(url: url)
        #expect(endpoint.host == host)
        #expect(endpoint.port == port)
        #expect(endpoint.authority == authority)
    }

    @Test(arguments: [
        "", "api.push.apple.com", "http://a", "https://", "https://:443", "https://a:", "https://a:0",
        "https://a:65536",
        "https://a:-1", "https://a/3/device", "https://u:p@a", "https://[::1", "https://[]", "https://[::1]x",
        "https://a b", "https://a\r\nx:1", "https://a:1:2",
    ])
    func anInvalidEndpointURLIsRefused(_ url: String) {
        #expect(throws: APNSError(.configuration, "")) { try APNSEndpoint(url: url) }
    }
}
