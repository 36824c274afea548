import Testing

@testable import Fetch

@Suite struct FetchURLTests {
    @Test func aURLIsParsedIntoOriginAndText() throws {
        let url = try FetchURL("https://CDN.Example.com/a%20b.png?key=1#part")
        #expect(url.origin == FetchOrigin(host: "cdn.example.com", port: 443))
        #expect(url.text.hasSuffix("/a%20b.png?key=1"))
        #expect(try FetchURL("https://cdn.example.com:8443").origin.port == 8443)
        #expect(try FetchURL("https://[2001:db8::1]/").origin.host == "[2001:db8::1]")
    }

    @Test(arguments: [
        "", "/logo.png", "logo.png", "http://cdn.example.com/", "ftp://cdn.example.com/", "file:///etc/passwd",
        "https://", "https://user@cdn.example.com/", "https://user:word@cdn.example.com/",
        "https://cdn.example.com@127.0.0.1/", "https://cdn.example.com:99999/", "https://cdn.example.com:x/",
        "https://cdn.example.com/\r\nHost: other", "https://cdn.example.com/\0", "gopher://127.0.0.1:6379/_PING",
    ])
    func anInvalidOrNonHTTPSURLIsRefused(_ text: String) {
        let error = #expect(throws: FetchError.self) { try FetchURL(text) }
        #expect(error?.code == .url)
    }

    @Test func onlyARequestToAChosenServerMayHaveHTTP() throws {
        #expect(throws: FetchError.self) {
            try FetchRequest(url: "http://collector:4318/v1/traces") { _ in true }.check()
        }
        var request = FetchRequest(url: "http://collector:4318/v1/traces") { _ in true }
        request.mayBePlain = true
        #expect(try request.parsedURL().isPlain)
        #expect(try request.parsedURL().origin == FetchOrigin(host: "collector", port: 4318))
        request.url = "https://collector/v1/traces"
        #expect(try !request.parsedURL().isPlain)
        request.url = "ftp://collector/"
        #expect(throws: FetchError.self) { try request.check() }
        let base = try FetchURL("http://collector/", mayBePlain: true)
        #expect(throws: FetchError.self) { try FetchURL("/other", relativeTo: base) }
    }

    @Test func numericHostsAreReadAsIPAddresses() throws {
        // If they were read as names, an allow-list of names might accept them.
        #expect(try FetchURL("https://0x7f.1/").origin.host == "127.0.0.1")
        #expect(try FetchURL("https://2130706433/").origin.host == "127.0.0.1")
    }

    @Test(arguments: [
        ("/b.png", "https://cdn.example.com/b.png"), ("b.png?x=1", "https://cdn.example.com/dir/b.png?x=1"),
        ("../c.png", "https://cdn.example.com/c.png"), ("//other.example.com/d", "https://other.example.com/d"),
        ("https://other.example.com:8443/e", "https://other.example.com:8443/e"),
    ])
    func aRedirectMayBeRelative(_ location: String, _ expected: String) throws {
        let base = try FetchURL("https://cdn.example.com/dir/a.png")
        #expect(try FetchURL(location, relativeTo: base).text == expected)
    }

    @Test(arguments: ["http://cdn.example.com/", "javascript:alert(1)", "https://u@cdn.example.com/", "file:///etc"])
    func anInvalidRedirectURLIsRefused(_ location: String) throws {
        let base = try FetchURL("https://cdn.example.com/a.png")
        let error = #expect(throws: FetchError.self) { try FetchURL(location, relativeTo: base) }
        #expect(error?.code == .url)
    }
}
