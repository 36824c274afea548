import NIOCore
import NIOHTTP1
import Testing

@testable import HTTPServer

@Suite struct RequestDecoderTests {
    /// The most storage of a connection with one partial request: a head of 16 KiB in a buffer that grew.
    static let storageLimit = 64 << 10

    func decoder() -> RequestDecoder {
        RequestDecoder(peer: TrustedProxies.none.peer(nil), bodyLimit: RequestLimits.body)
    }

    /// Feeds a stream of requests so that one byte of the next request has always arrived.
    ///
    /// - Returns: the most storage held after a request, and the number of requests.
    func pipeline(_ request: [UInt8], rounds: Int) throws -> (storage: Int, requests: Int) {
        var decoder = self.decoder()
        var (storage, requests) = (0, 0)
        decoder.feed(ByteBuffer(bytes: request.prefix(1)))
        let part = ByteBuffer(bytes: request.dropFirst() + request.prefix(1))
        for _ in 0..<rounds {
            decoder.feed(part)
            while case .request? = try decoder.next() { requests += 1 }
            storage = max(storage, decoder.storageBytes)
            #expect(decoder.bufferedBytes == 1)
        }
        return (storage, requests)
    }

    @Test func storageIsFreedAlthoughTheNextRequestHasBegun() throws {
        let body = String(repeating: "b", count: 60_000)
        let large = Array("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n\(body)".utf8)
        // 300 MB in total.
        let (storage, requests) = try self.pipeline(large, rounds: 5_000)
        #expect(requests == 5_000, "\(storage)")
        #expect(storage <= Self.storageLimit, "\(storage)")
        let small = try self.pipeline(Array("GET /x HTTP/1.1\r\nHost: a\r\n\r\n".utf8), rounds: 20_000)
        #expect(small.requests == 20_000, "\(small.storage)")
        #expect(small.storage <= 4 << 10, "\(small.storage)")
    }

    private static let strict = ExtendedReading(
        bodyLimit: { $0.fields[.key] == nil ? nil : 10 }, bodies: 100, arrivalLimit: .seconds(1))

    @Test(arguments: ["Content-Length: 5", "Content-Length: 5000", "Transfer-Encoding: chunked"])
    func aRequestThatIsRefusedByItsHeadComesWithoutItsBody(framing: String) throws {
        for isAdmitted in [false, true] {
            var decoder = RequestDecoder(peer: TrustedProxies.none.peer(nil), bodyLimit: 1 << 20, reading: Self.strict)
            let key = isAdmitted ? "X-Api-Key: k\r\n" : ""
            decoder.feed(
                ByteBuffer(
                    string: "POST /x HTTP/1.1\r\nHost: a\r\n\(key)Expect: 100-continue\r\n\(framing)\r\n\r\n"))
            switch Result(catching: { () throws(RequestFault) in try decoder.next() }) {
            case .success(.request(let request, let head)):
                #expect(!isAdmitted)
                #expect(!head.keepsAlive)
                #expect(request.body.readableBytes == 0)
            case .success(.expectsContinue): #expect(isAdmitted && !framing.hasSuffix("5000"))
            case .failure(let fault): #expect(isAdmitted && fault.status == .payloadTooLarge)
            case .success(nil): Issue.record("nothing was decided")
            }
        }
    }

    @Test func manySmallChunksKeepNoMoreThanTheBody() throws {
        var decoder = self.decoder()
        decoder.feed(ByteBuffer(string: "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1"))
        // Each chunk carries one content byte in a kilobyte, and is followed by the first byte of the next chunk.
        let chunk = ByteBuffer(string: ";x=\(String(repeating: "y", count: 1_000))\r\nb\r\n1")
        for _ in 0..<3_000 {
            decoder.feed(chunk)
            let event = try decoder.next()
            #expect(event == nil)
            #expect(decoder.storageBytes <= Self.storageLimit)
        }
        decoder.feed(ByteBuffer(string: "\r\nb\r\n0\r\n\r\n"))
        guard case .request(let request, _)? = try decoder.next() else {
            Issue.record("no request")
            return
        }
        #expect(request.body.readableBytes == 3_001)
    }

    @Test func storageShrinksAsRequestsOfOneReadAreTaken() throws {
        var decoder = self.decoder()
        let request = "GET /x HTTP/1.1\r\nHost: a\r\n\r\n"
        decoder.feed(ByteBuffer(string: String(repeating: request, count: 4_000) + "G"))
        for number in 1...4_000 {
            guard case .request? = try decoder.next() else {
                Issue.record("request \(number) is missing")
                return
            }
            #expect(decoder.storageBytes <= max(4 << 10, 4 * decoder.bufferedBytes))
        }
        let event = try decoder.next()
        #expect(event == nil)
        #expect(decoder.bufferedBytes == 1)
        #expect(decoder.storageBytes <= 4 << 10)
    }
}
