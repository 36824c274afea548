import Testing

@testable import Packaging

@Suite struct PictureHostsTests {
    private let hosts = Result {
        try PictureHosts(["cdn.example.com", "*.images.example.com", "Port.example.com:8443"])
    }

    @Test(arguments: [
        "https://cdn.example.com/a.png", "https://CDN.example.com", "https://cdn.example.com:443/a?b#c",
        "https://a.images.example.com/", "https://a.b.images.example.com/", "https://port.example.com:8443/a",
    ])
    func aListedHostIsAllowed(_ url: String) throws { #expect(try self.hosts.get().allows(url: url)) }

    @Test(arguments: [
        "http://cdn.example.com/a.png", "https://example.com/", "https://images.example.com/",
        "https://ximages.example.com/", "https://cdn.example.com.evil.test/", "https://evilcdn.example.com/",
        "https://cdn.example.com:8443/", "https://port.example.com/", "https://cdn.example.com@evil.test/",
        "https://evil.test/cdn.example.com", "https://evil.test?cdn.example.com",
        "https://evil.test\\.images.example.com/",
        "https://evil.test#.images.example.com/", "https://cdn.example.com\u{0}/", "https://cdn.example.com./",
        "https://.images.example.com/", "https:///cdn.example.com/", "https://[::1]/", "cdn.example.com", "",
        "https://cdn.example.com/" + String(repeating: "a", count: 3000),
    ])
    func anythingElseIsNot(_ url: String) throws { #expect(!(try self.hosts.get().allows(url: url))) }

    @Test(arguments: [
        "", "*", "*.com", "*.", "https://cdn.example.com", "cdn.example.com/", "cdn.example.com:0", "cdn.example.com:x",
        "cdn.example.com:65536", "a..b", ".example.com", "a*.example.com", "*.*.example.com", "[::1]", "user@host",
        "a b",
    ])
    func anInvalidHostIsRefused(_ text: String) { #expect(throws: PictureHostFault.self) { try PictureHosts([text]) } }

    @Test func moreThan100PictureHostsAreRefused() {
        #expect(throws: PictureHostFault.self) { try PictureHosts(Array(repeating: "cdn.example.com", count: 101)) }
    }

    @Test(arguments: [
        ("https://h/a.png?w=1&Signature=x", "https://h/a.png", "https://h/a.png?w=1"),
        ("https://h/a.png?Signature=x", "https://h/a.png", "https://h/a.png"),
        ("https://h/a.png?Signature&w=1&&b#c?d", "https://h/a.png", "https://h/a.png?w=1&b"),
        ("https://h/a.png?signature=x", "https://h/a.png", "https://h/a.png?signature=x"),
        ("https://h/a.png#b?Signature=x", "https://h/a.png#b?Signature=x", "https://h/a.png#b?Signature=x"),
        ("https://h/a.png", "https://h/a.png", "https://h/a.png"),
        ("https://h/a.png?", "https://h/a.png", "https://h/a.png"),
    ])
    func ignoredQueryParametersDoNotDistinguishPictures(_ url: String, _ plain: String, _ unsigned: String) throws {
        #expect(try PictureHosts(["h"]).identity(of: url) == url)
        #expect(try PictureHosts(["h"], ignoring: .all).identity(of: url) == plain)
        #expect(try PictureHosts(["h"], ignoring: .names(["Signature"])).identity(of: url) == unsigned)
    }

    @Test func withoutAHostListNoURLIsAllowed() { #expect(!PictureHosts.none.allows(url: "https://cdn.example.com/")) }
}
