import Testing

@testable import APNS

@Suite struct APNSProxyTests {
    @Test(
        arguments: [
            ("http://proxy:3128", "proxy:3128", nil), ("HTTP://10.0.0.1:8080/", "10.0.0.1:8080", nil),
            ("http://[::1]:3128", "[::1]:3128", nil), ("http://user:word@proxy:1", "proxy:1", "user:word"),
            ("http://us%40er:p%3Aw%25@proxy:1", "proxy:1", "us@er:p:w%"), ("http://a:b@c@proxy:1", "proxy:1", "a:b@c"),
            ("http://user:@proxy:1", "proxy:1", "user:"),
        ] as [(String, String, String?)])
    func anAddressIsRead(_ url: String, _ text: String, _ credential: String?) throws {
        let proxy = try APNSProxy(url: url)
        #expect(proxy.description == text)
        #expect(proxy.basicCredential == credential)
    }

    @Test(arguments: [
        "", "proxy:1", "https://proxy:1", "http://proxy", "http://proxy:0", "http://proxy:65536", "http://:1",
        "http://secret@proxy:1", "http://a:%zz@proxy:1", "http://a:%0d%0A@proxy:1", "http://a:%ff@proxy:1",
        "http://pro xy:1", "http://proxy:1/path", "http://[::1:1", "http://a:%4@proxy:1",
    ])
    func anInvalidProxyURLIsRefusedWithoutShowingItsSecret(_ url: String) {
        #expect {
            try APNSProxy(url: url)
        } throws: { error in
            guard let error = error as? APNSError else { return false }
            return error.code == .configuration && !error.message.contains("secret")
        }
    }
}
