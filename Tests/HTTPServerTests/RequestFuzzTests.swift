import Foundation
import NIOCore
import NIOEmbedded
import NIOHTTP1
import TestKit
import Testing

@testable import HTTPServer

/// Our decoder against llhttp, which reads the same bytes: every request that ours accepts must be read alike by
/// llhttp. Ours may be stricter.
@Suite struct RequestFuzzTests {
    /// The parts of a request that both parsers report.
    struct Seen: Hashable, CustomStringConvertible {
        var method: String
        var target: String
        var authorization: [String]
        var ifNoneMatch: [String]
        var ifModifiedSince: String?
        var isVersion11: Bool
        var keepsAlive: Bool
        var body: [UInt8]

        var description: String {
            "\(self.method) \(self.target) \(self.authorization) \(self.ifNoneMatch) \(self.ifModifiedSince ?? "-") "
                + "\(self.isVersion11) \(self.keepsAlive) \(String(decoding: self.body, as: UTF8.self).debugDescription)"
        }
    }

    /// The requests that a parser finds in a stream, up to its first error or the connection's last request.
    struct Reading {
        var requests: [Seen] = []
        var error: (any Error)?
    }

    static func name(_ method: Request.Method) -> String {
        switch method {
        case .get: "GET"
        case .head: "HEAD"
        case .post: "POST"
        case .delete: "DELETE"
        case .put: "PUT"
        case .patch: "PATCH"
        case .options: "OPTIONS"
        case .other: "other"
        }
    }

    static func ours(_ parts: [ArraySlice<UInt8>]) -> Reading {
        var reading = Reading()
        var decoder = RequestDecoder(peer: TrustedProxies.none.peer(nil), bodyLimit: RequestLimits.body)
        do {
            for part in parts {
                decoder.feed(ByteBuffer(bytes: part))
                while let event = try decoder.next() {
                    guard case .request(let request, let head) = event else { continue }
                    reading.requests.append(
                        Seen(
                            method: Self.name(request.method), target: request.target,
                            authorization: request.fields.authorization.map { [$0] } ?? [],
                            ifNoneMatch: request.fields.ifNoneMatch, ifModifiedSince: request.fields.ifModifiedSince,
                            isVersion11: head.isVersion11, keepsAlive: head.keepsAlive,
                            body: Array(request.body.readableBytesView)))
                    guard head.keepsAlive else { return reading }
                }
            }
        } catch {
            reading.error = error
        }
        return reading
    }

    static func llhttp(_ parts: [ArraySlice<UInt8>]) throws -> Reading {
        var reading = Reading()
        let channel = EmbeddedChannel()
        let decoder = ByteToMessageHandler(HTTPRequestDecoder(leftOverBytesStrategy: .dropBytes))
        try channel.pipeline.syncOperations.addHandler(decoder)
        var head: HTTPRequestHead?
        var body: [UInt8] = []
        func drain() throws {
            while let part = try channel.readInbound(as: HTTPServerRequestPart.self) {
                switch part {
                case .head(let next): (head, body) = (next, [])
                case .body(let bytes): body += Array(bytes.readableBytesView)
                case .end:
                    guard let done = head else { continue }
                    reading.requests.append(Self.seen(done, body))
                }
            }
        }
        for part in parts {
            do {
                try channel.writeInbound(ByteBuffer(bytes: part))
                try drain()
            } catch {
                try drain()
                reading.error = error
                break
            }
        }
        _ = try? channel.finish(acceptAlreadyClosed: true)
        return reading
    }

    static func seen(_ head: HTTPRequestHead, _ body: [UInt8]) -> Seen {
        // llhttp leaves trailing blanks in a value if a read ends inside it.
        func values(_ name: String) -> [String] { head.headers[name].map { $0.trimmingCharacters(in: .whitespaces) } }
        return Seen(
            method: Self.name(Request.Method(head.method.rawValue)), target: head.uri,
            authorization: values("authorization"), ifNoneMatch: values("if-none-match"),
            ifModifiedSince: values("if-modified-since").last, isVersion11: head.version != .http1_0,
            keepsAlive: head.isKeepAlive, body: body)
    }

    /// Ours accepts any method and HTTP/1.x, as RFC 9110 §2.5 and §9.1 allow; llhttp has a fixed list of each. Ours
    /// accepts a tab after a content length, as RFC 9110 §5.5 allows; llhttp accepts only spaces.
    static func isKnownDifference(_ error: (any Error)?, in stream: [UInt8]) -> Bool {
        switch error as? HTTPParserError {
        case .invalidMethod?, .invalidVersion?: true
        case .invalidContentLength?:
            String(decoding: stream, as: UTF8.self).contains(/(?i)content-length:[ \t]*[0-9]+ *\t/)
        default: false
        }
    }

    /// - Returns: a description of the first difference; nil if there is none.
    static func difference(_ stream: [UInt8], cuts: [Int]) throws -> String? {
        let bounds = [0] + cuts.sorted() + [stream.count]
        let parts = zip(bounds, bounds.dropFirst()).map { stream[$0..<$1] }
        let (ours, other) = (Self.ours(parts), try Self.llhttp(parts))
        for (index, request) in ours.requests.enumerated() {
            guard index < other.requests.count else {
                guard !Self.isKnownDifference(other.error, in: stream) else { return nil }
                return "request \(index) is ours alone: \(request); llhttp: \(String(describing: other.error))"
            }
            var theirs = other.requests[index]
            // In doubt, ours ends the connection and reads no further.
            if !request.keepsAlive { theirs.keepsAlive = false }
            guard request == theirs else { return "request \(index): ours \(request); llhttp \(theirs)" }
        }
        return nil
    }

    // MARK: Input

    /// Makes streams of valid and almost valid requests.
    struct Maker {
        var random: SeededGenerator

        mutating func pick<Element>(_ elements: [Element]) -> Element {
            elements[Int.random(in: 0..<elements.count, using: &self.random)]
        }

        mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &self.random) < percent }

        mutating func text(_ count: ClosedRange<Int>, of alphabet: String) -> String {
            let letters = Array(alphabet)
            return String((0..<Int.random(in: count, using: &self.random)).map { _ in self.pick(letters) })
        }

        mutating func body() -> String { self.text(0...40, of: "ab[]\r\n\":0 GETPOST/HTTP1.é") }

        mutating func chunked() -> String {
            var text = ""
            for _ in 0..<Int.random(in: 0...3, using: &self.random) {
                let part = self.body()
                guard !part.isEmpty else { continue }
                let size = String(part.utf8.count, radix: 16)
                let tail = self.pick([
                    "", "", "", ";x", ";x=y", ";x=\"y z\"", " ", ";", "; x", ";x = y", ";x=\"y\\\"\"",
                ])
                text += (self.chance(10) ? "0" : "") + (self.chance(20) ? size.uppercased() : size) + tail + "\r\n"
                text += part + "\r\n"
            }
            let trailer = self.pick([
                "", "", "", "t: u\r\n", "t:\r\nv: w\r\n", "t u\r\n", " t: u\r\n", "Content-Length: 3\r\n",
            ])
            return text + "0\r\n" + trailer + "\r\n"
        }

        mutating func request() -> String {
            let method = self.pick(["GET", "GET", "POST", "POST", "HEAD", "DELETE", "PUT", "OPTIONS", "PATCH"])
            let path = self.pick([
                "/", "/v1/log", "*", "http://h.example:80/x?y", "/a%20b;c?d=e#f", "/\"<>[]{}|^`\\", "?x", "x",
            ])
            var lines = ["\(method) \(path) HTTP/1.\(self.pick(["1", "1", "1", "0"]))", "Host: a"]
            for _ in 0..<Int.random(in: 0...4, using: &self.random) {
                lines.append(
                    self.pick([
                        "Authorization: AppleOrder abc", "authorization:x", "If-None-Match: \"a\", W/\"b\"",
                        "IF-NONE-MATCH: *", "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT", "Connection: close",
                        "Connection: keep-alive", "Connection: x, Close", "Expect: 100-continue", "x:", "x: \t y \t",
                        "x: é\u{80}", "Accept: */*", "Host: b", "Cookie: a=b; c=d",
                    ]))
            }
            var body = ""
            switch Int.random(in: 0..<6, using: &self.random) {
            case 0, 1:
                body = self.body()
                lines.append("Content-Length: \(body.utf8.count)")
            case 2, 3:
                body = self.chunked()
                lines.append("Transfer-Encoding: \(self.pick(["chunked", "Chunked", "chunked ", "gzip, chunked"]))")
            default: break
            }
            if self.chance(5) { lines.append(self.pick(["Content-Length: 2", "Transfer-Encoding: chunked"])) }
            return (self.chance(5) ? "\r\n" : "") + lines.joined(separator: "\r\n") + "\r\n\r\n" + body
        }

        /// Bytes that are significant to a parser.
        static let telling = Array("\r\n\t :;,=\"\\0aF-+/%\u{0}\u{1}\u{7F}".utf8) + [0x80, 0xFF]

        mutating func stream() -> [UInt8] {
            let count = Int.random(in: 1...4, using: &self.random)
            var bytes = Array((0..<count).map { _ in self.request() }.joined().utf8)
            guard self.chance(60) else { return bytes }
            for _ in 0..<Int.random(in: 1...3, using: &self.random) where !bytes.isEmpty {
                let place = Int.random(in: 0..<bytes.count, using: &self.random)
                switch Int.random(in: 0..<4, using: &self.random) {
                case 0: bytes[place] = self.pick(Self.telling)
                case 1: bytes.insert(self.pick(Self.telling), at: place)
                case 2: bytes.remove(at: place)
                default:
                    let end = min(bytes.count, place + Int.random(in: 1...20, using: &self.random))
                    let part = Array(bytes[place..<end])
                    bytes.insert(contentsOf: part, at: Int.random(in: 0...bytes.count, using: &self.random))
                }
            }
            return bytes
        }

        mutating func cuts(_ count: Int) -> [Int] {
            (0..<Int.random(in: 0...6, using: &self.random)).map { _ in Int.random(in: 0...count, using: &self.random) }
        }
    }

    /// `WAYBILL_FUZZ_SEED` repeats a failure; `WAYBILL_FUZZ_STREAMS` sets the number of streams.
    @Test func everyAcceptedRequestIsReadAlikeByLlhttp() throws {
        let environment = ProcessInfo.processInfo.environment
        let seed = environment["WAYBILL_FUZZ_SEED"].flatMap { UInt64($0) } ?? UInt64.random(in: 0..<1 << 32)
        let streams = environment["WAYBILL_FUZZ_STREAMS"].flatMap { Int($0) } ?? 3_000
        var maker = Maker(random: SeededGenerator(seed: seed))
        var taken = 0
        for number in 0..<streams {
            let stream = maker.stream()
            let cuts = maker.cuts(stream.count)
            let difference = try Self.difference(stream, cuts: cuts)
            let shown = String(decoding: stream, as: UTF8.self).debugDescription
            try #require(
                difference == nil,
                "seed \(seed), stream \(number), cut at \(cuts.sorted()): \(difference ?? "") in \(shown)")
            taken += Self.ours([stream[...]]).requests.count
        }
        #expect(taken > streams / 4, "seed \(seed): too few requests are taken to say much")
    }

    /// The comparison itself detects differences.
    @Test func theComparisonSeesADifference() throws {
        let right = Array("GET / HTTP/1.1\r\nHost: a\r\n\r\n".utf8)
        #expect(try Self.difference(right, cuts: [3]) == nil)
        #expect(Self.ours([right[...]]).requests == (try Self.llhttp([right[...]]).requests))
        #expect(Self.ours([right[...]]).requests.first?.target == "/")
        let tab = Array("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\t\r\n\r\nabc".utf8)
        #expect(try Self.difference(tab, cuts: []) == nil)
        let known = try Self.llhttp([Array("GET / HTTP/1.7\r\nHost: a\r\n\r\n".utf8)[...]])
        #expect(known.requests.isEmpty)
        #expect(Self.isKnownDifference(known.error, in: []))
    }
}
