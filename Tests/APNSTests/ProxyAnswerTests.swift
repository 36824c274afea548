import Testing

@testable import APNS

@Suite struct ProxyAnswerTests {
    private func read(_ text: String, pieces: Int = 1) -> ProxyAnswer.Verdict {
        var answer = ProxyAnswer()
        var verdict = ProxyAnswer.Verdict.incomplete
        let bytes = Array(text.utf8)
        for start in stride(from: 0, to: bytes.count, by: max(1, bytes.count / pieces)) {
            guard verdict == .incomplete else { return verdict }
            verdict = answer.receive(bytes[start..<min(start + max(1, bytes.count / pieces), bytes.count)])
        }
        return verdict
    }

    @Test(arguments: [
        ("HTTP/1.1 200 Connection established\r\n\r\n", ProxyAnswer.Verdict.open),
        ("HTTP/1.0 200\r\n\r\n", .open), ("HTTP/1.1 204 x\r\nvia: a\r\nb: c\r\n\r\n", .open),
        ("HTTP/1.1 407 Proxy Authentication Required\r\nproxy-authenticate: Basic\r\n\r\n", .refused(status: 407)),
        ("HTTP/1.1 502\r\n\r\n", .refused(status: 502)), ("HTTP/1.1 200 OK\r\n", .incomplete), ("HTT", .incomplete),
        ("HTTP/1.1 2000\r\n\r\n", .refused(status: nil)), ("HTTP/1.1 20\r\n\r\n", .refused(status: nil)),
        ("HTTP/1.1 ABC\r\n\r\n", .refused(status: nil)), ("HTTP/2 200\r\n\r\n", .refused(status: nil)),
        ("SSH-2.0-x", .refused(status: nil)), ("\r\n\r\n", .refused(status: nil)),
    ])
    func anAnswerIsReadInAnyPieces(_ text: String, _ verdict: ProxyAnswer.Verdict) {
        for pieces in [1, 2, 5, text.utf8.count] { #expect(self.read(text, pieces: pieces) == verdict) }
    }

    @Test func anAnswerFollowedByBytesIsRefused() {
        #expect(self.read("HTTP/1.1 200 OK\r\n\r\nmore") == .refused(status: nil))
    }

    @Test func anEndlessHeaderIsRefused() {
        let endless = "HTTP/1.1 200 OK\r\n" + String(repeating: "a: b\r\n", count: 2_000)
        #expect(self.read(endless) == .refused(status: nil))
    }
}
