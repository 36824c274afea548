import NIOCore
import NIOHPACK
import TestKit
import TestTraits
import Testing

@testable import HTTPServer

/// The end of a stream and of a connection: every request that was accepted has its answer.
@Suite(.server, .serialized, .timeLimit(.minutes(3))) struct HTTP2EndTests {
    typealias Fixture = ServerFixture
    typealias Wire = HTTP2Wire

    /// A client that keeps streams in progress on one connection, as RFC 9113 §6.8 wants it, and what became of them.
    private struct Ledger {
        var open: Set<UInt32> = []
        var answered = 0
        var refused: Set<UInt32> = []
        var next: UInt32 = 1
        /// The last stream that each GOAWAY named.
        var announced: [UInt32] = []

        mutating func receive(_ frame: HTTP2Wire.Frame) {
            switch frame.type {
            case Wire.goAway: self.announced.append(frame.lastStream)
            case Wire.reset:
                self.open.remove(frame.stream)
                self.refused.insert(frame.stream)
            case Wire.headers, Wire.data:
                guard frame.flags & Wire.endStream != 0, self.open.remove(frame.stream) != nil else { return }
                self.answered += 1
            default: break
            }
        }
    }

    @Test func aStopAnswersEachRequestUpToTheLastAnnouncedStream() async throws {
        // A client that takes longer to confirm the announcement finds the connection closed.
        try await Fixture.with(try TLSSupport.options { $0.http2.lingering = .seconds(60) }) { fixture in
            try await fixture.put("1")
            try await fixture.http2 { wire in
                var ledger = Ledger()
                func request() throws -> [UInt8] {
                    defer { ledger.next += 2 }
                    ledger.open.insert(ledger.next)
                    return try wire.request(
                        ledger.next,
                        Wire.fields("GET", fixture.package("1"), token: Fixture.ownToken, [("if-none-match", "*")]))
                }
                try await wire.connection.send(try (0..<90).flatMap { _ in try request() })
                while ledger.announced.isEmpty {
                    ledger.receive(try await wire.frame())
                    if ledger.answered == 200 { fixture.stop() }
                    while ledger.announced.isEmpty, ledger.open.count < 90 {
                        try await wire.connection.send(try request())
                    }
                }
                #expect(ledger.announced == [UInt32(Int32.max)], "streams that are on their way are accepted")
                do {
                    while true {
                        let frame = try await wire.frame()
                        ledger.receive(frame)
                        guard frame.type == Wire.ping, frame.flags & Wire.ack == 0 else { continue }
                        try await wire.connection.send(Wire.bytes(Wire.ping, flags: Wire.ack, frame.payload))
                    }
                } catch is RawConnection.Failure {
                    #expect(wire.connection.hasEnded)
                }
                #expect(ledger.open.isEmpty, "each has an answer")
                #expect(ledger.refused.isEmpty)
                #expect(ledger.announced.last == ledger.next - 2)
                #expect(ledger.answered > 200)
            }
        }
    }

    @Test func aFaultOfOneStreamLeavesItsNeighboursTheirAnswers() async throws {
        try await Fixture.with(try TLSSupport.options()) { fixture in
            let get = Wire.fields("GET", "/")
            let faults: [(what: String, codes: Set<UInt32>, make: (HTTP2Wire) throws -> [UInt8])] = [
                (":protocol", [1], { try $0.request(3, get + [(":protocol", "websocket")]) }),
                (
                    "a window update of 0", [1],
                    { try $0.open(3) + Wire.bytes(Wire.windowUpdate, stream: 3, [0, 0, 0, 0]) }
                ),
                (
                    "a window beyond 2^31-1", [3],
                    { try $0.open(3) + Wire.bytes(Wire.windowUpdate, stream: 3, [0x7F, 0xFF, 0xFF, 0xFF]) }
                ),
            ]
            for (index, (what, codes, make)) in faults.enumerated() {
                let token = try fixture.derived("\(index)")
                let path = fixture.package("\(index)")
                try await fixture.http2 { wire in
                    try await wire.connection.send(
                        try wire.request(1, Wire.fields("GET", path, token: token)) + make(wire))
                    let reset = try await wire.frame(Wire.reset)
                    #expect(reset.stream == 3, "\(what)")
                    #expect(codes.contains(reset.errorCode), "\(what): \(reset.errorCode)")
                    #expect(try await wire.exchange(5, Wire.fields("GET", "/nothing")).status == 404, "\(what)")
                    try await fixture.put("\(index)", token: token)
                    #expect(try await wire.response(1).body == Fixture.package, "\(what)")
                }
            }
        }
    }

    @Test func anErrorOfTheConnectionNamesTheLastStream() async throws {
        try await Fixture.with(try TLSSupport.options()) { fixture in
            let faults: [(what: String, bytes: [UInt8])] = [
                ("an even stream", Wire.bytes(Wire.data, stream: 2, [1])),
                ("a window that overflows", Wire.bytes(Wire.windowUpdate, [0x7F, 0xFF, 0xFF, 0xFF])),
                (
                    "pings",
                    Array((0..<300).map { _ in Wire.bytes(Wire.ping, [UInt8](repeating: 0, count: 8)) }.joined())
                ),
            ]
            for (what, bytes) in faults {
                try await fixture.http2 { wire in
                    for stream in [UInt32(1), 3, 5] {
                        #expect(try await wire.exchange(stream, Wire.fields("GET", "/nothing")).status == 404)
                    }
                    try? await wire.connection.send(bytes)
                    let frame = try await wire.frame(Wire.goAway)
                    #expect(frame.lastStream == 5, "\(what)")
                    #expect(frame.errorCode != 0, "\(what)")
                }
            }
        }
    }
}

extension HTTP2Wire {
    /// Returns the start of a request whose body follows.
    fileprivate func open(_ stream: UInt32) throws -> [UInt8] {
        let block = try self.block(Self.fields("POST", "/v1/log"))
        return Self.bytes(Self.headers, flags: Self.endHeaders, stream: stream, block)
    }
}
