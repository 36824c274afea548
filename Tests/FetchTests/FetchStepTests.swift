import Testing

@testable import Fetch

@Suite struct FetchStepTests {
    private func step(
        _ status: Int, _ lines: [String] = [], redirects: Int = 0, retryAfter: Int64 = 0, entityTag: String? = nil
    ) throws -> FetchStep {
        var headers = ResponseHeaders()
        for line in lines { _ = headers.receive(Array("\(line)\r\n".utf8)) }
        var request = FetchRequest(url: "https://cdn.example.com/a.png") { $0.host == "cdn.example.com" }
        request.entityTag = entityTag
        return FetchStep.after(
            status: status, headers: headers, body: [1], url: try FetchURL(request.url), redirects: redirects,
            request: request, retryAfterSeconds: retryAfter)
    }

    private func code(_ step: FetchStep) -> FetchError.Code? {
        if case .failed(let error) = step { error.code } else { nil }
    }

    @Test func contentKeepsItsValidators() throws {
        let content = FetchedContent(body: [1], entityTag: "W/\"a\"", lastModified: "yesterday")
        #expect(try self.step(200, ["ETag: W/\"a\"", "last-modified:  yesterday "]) == .done(.content(content)))
    }

    @Test func onlyAConditionalRequestMayGetNotModified() throws {
        #expect(try self.step(304, entityTag: "\"a\"") == .done(.notModified))
        #expect(self.code(try self.step(304)) == .status(304))
    }

    @Test(arguments: [301, 302, 303, 307, 308])
    func aRedirectIsFollowedThreeTimes(_ status: Int) throws {
        let there = FetchStep.redirect(try FetchURL("https://cdn.example.com/b"))
        #expect(try self.step(status, ["Location: /b"], redirects: 2) == there)
        #expect(self.code(try self.step(status, ["Location: /b"], redirects: 3)) == .tooManyRedirects)
        #expect(self.code(try self.step(status)) == .status(status))
    }

    @Test func aRedirectMustLeadToAnAllowedHTTPSHost() throws {
        #expect(self.code(try self.step(302, ["Location: https://other.example.com/"])) == .hostNotAllowed)
        #expect(self.code(try self.step(302, ["Location: http://cdn.example.com/"])) == .url)
    }

    @Test(arguments: [100, 201, 204, 206, 300, 404, 410, 500, 503])
    func anyOtherStatusIsAFailure(_ status: Int) throws {
        #expect(self.code(try self.step(status, ["Location: /b"])) == .status(status))
    }

    @Test func retryAfterIsLimitedToADay() throws {
        guard case .failed(let error) = try self.step(503, retryAfter: 1 << 40) else { return }
        #expect(error.retryAfterSeconds == 86_400)
        guard case .failed(let other) = try self.step(503) else { return }
        #expect(other.retryAfterSeconds == nil)
    }

    @Test(arguments: [
        "\"a b\"", "a", "\"", "W/a", "\"a\"b\"", "\"\u{e9}\"", "\"" + String(repeating: "x", count: 600) + "\"",
    ])
    func aTagThatCannotBeSentBackIsNotKept(_ tag: String) throws {
        var headers = ResponseHeaders()
        _ = headers.receive(Array("ETag: \(tag)\r\n".utf8))
        #expect(headers.entityTag == nil)
    }

    @Test func informationalAnswersAreForgotten() {
        var headers = ResponseHeaders()
        for line in ["HTTP/1.1 103 Early Hints", "ETag: \"early\"", "", "HTTP/1.1 200 OK", "Last-Modified: now"] {
            let isTaken = headers.receive(Array("\(line)\r\n".utf8))
            #expect(isTaken)
        }
        #expect(headers.entityTag == nil)
        #expect(headers.lastModified == "now")
    }

    @Test func headerLinesAreBounded() {
        var headers = ResponseHeaders()
        let line = Array("X: \(String(repeating: "x", count: 1000))\r\n".utf8)
        var lines = 0
        while lines < 100, headers.receive(line) { lines += 1 }
        #expect(lines < 100)
    }
}
