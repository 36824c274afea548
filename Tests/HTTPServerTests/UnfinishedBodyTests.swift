import NIOCore
import NIOHPACK
import TestKit
import TestTraits
import Testing

@testable import HTTPServer

/// Requests whose bodies do not end, over many connections.
@Suite(.server, .serialized, .timeLimit(.minutes(3))) struct UnfinishedBodyTests {
    typealias Fixture = ServerFixture
    typealias Wire = HTTP2Wire

    /// Bytes that arrive of each body; they are kept in a buffer of 64 KiB.
    static let part = 40_000
    static let limit = 320 << 10
    static let proxies = TrustedProxies("127.0.0.0/8") ?? .none

    static func edge(proxies: TrustedProxies = .none) -> @Sendable (inout TransportPolicy) -> Void {
        { edge in
            edge.bodies = BodyAccount(
                .init(perAddress: Self.limit, perNetwork: 4 * Self.limit, total: 8 * Self.limit), metrics: edge.metrics)
            edge.proxies = proxies
        }
    }

    static func value(_ fixture: Fixture, _ name: String) -> Int {
        let line = fixture.metricsText.split(separator: "\n").first { $0.hasPrefix(name + " ") }
        return line?.split(separator: " ").last.flatMap { Double($0) }.map { Int($0) } ?? 0
    }

    static func gaveWay(_ fixture: Fixture) -> Int {
        Self.value(fixture, #"waybill_requests_gave_way_total{limit="address"}"#)
    }

    static func head(_ more: String = "") -> String {
        "POST /v1/log HTTP/1.1\r\nHost: a\r\n\(more)Content-Length: 60000\r\n\r\n"
    }

    @Test(arguments: ["", "chunked", "proxied"]) func theSumOfAllConnectionsOfAnAddressIsBounded(_ kind: String)
        async throws
    {
        var options = Fixture.Options()
        options.edge = Self.edge(proxies: kind == "proxied" ? Self.proxies : .none)
        try await Fixture.with(options) { fixture in
            let from = kind == "proxied" ? "X-Forwarded-For: 198.51.100.7\r\n" : ""
            let head =
                kind == "chunked"
                ? "POST /v1/log HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nea60\r\n" : Self.head(from)
            let first = Array(head.utf8) + [UInt8](repeating: 32, count: Self.part)
            var connections: [RawConnection] = []
            for number in 0..<20 {
                let connection = try await RawConnection.open(port: fixture.port)
                connections.append(connection)
                let before = Self.value(fixture, "waybill_request_bytes") + Self.gaveWay(fixture)
                try await connection.send(first)
                try await eventually("request \(number) is counted") {
                    Self.value(fixture, "waybill_request_bytes") + Self.gaveWay(fixture) != before
                }
                #expect(Self.value(fixture, "waybill_request_bytes") <= Self.limit)
            }
            #expect(try await fixture.once("POST", "/v1/log", body: "[]").status == 200, "the same address goes on")
            try await eventually("all but four give way") { Self.gaveWay(fixture) >= 16 }
            let refused = try await connections[0].response()
            #expect(refused.status == 503)
            #expect(refused["retry-after"] == "1")
            #expect(refused["connection"] == "close")
            // The last one was no slower than the others.
            let rest = String(repeating: " ", count: 60_000 - Self.part - 1) + "]"
            try await connections[19].send(kind == "chunked" ? rest + "\r\n0\r\n\r\n" : rest)
            #expect(try await connections[19].response().status == 400, "it is complete, though no list")
            for connection in connections { await connection.close() }
            try await eventually("nothing is kept") { Self.value(fixture, "waybill_request_bytes") == 0 }
        }
    }

    @Test func theSumOfAllStreamsOfAnAddressIsBounded() async throws {
        try await Fixture.with(try TLSSupport.options(requestLimit: nil, Self.edge())) { fixture in
            var wires: [HTTP2Wire] = []
            for _ in 0..<10 {
                let connection = try await RawConnection.open(port: fixture.port, tls: TLSSupport.client(["h2"]))
                let wire = HTTP2Wire(connection)
                try await wire.start()
                wires.append(wire)
                for stream in [1, 3] as [UInt32] {
                    let block = try wire.block(Wire.fields("POST", "/v1/log"))
                    try await connection.send(
                        Wire.bytes(Wire.headers, flags: Wire.endHeaders, stream: stream, block))
                    try await wire.send(body: Self.part, of: 32, on: stream, isComplete: false)
                }
                #expect(Self.value(fixture, "waybill_request_bytes") <= Self.limit)
            }
            try await eventually("all but four give way") { Self.gaveWay(fixture) >= 16 }
            #expect(Self.value(fixture, "waybill_request_bytes") <= Self.limit)
            let refused = try await wires[0].response(1)
            #expect(refused.status == 503)
            #expect(refused.headers.first(name: "retry-after") == "1")
            #expect(try await wires[0].frame(Wire.reset).errorCode == 0, "the rest is not wanted")
            #expect(
                try await wires[0].exchange(5, Wire.fields("POST", "/v1/log"), body: Array("[]".utf8)).status == 200,
                "the connection goes on")
            for wire in wires { await wire.connection.close() }
            try await eventually("nothing is kept") { Self.value(fixture, "waybill_request_bytes") == 0 }
        }
    }

    /// Requests that a client sends before it has its answer are kept until their turn.
    @Test func theSumOfRequestsThatArriveTooEarlyIsBounded() async throws {
        var options = Fixture.Options()
        options.edge = Self.edge()
        options.holding.time = .minutes(2)
        try await Fixture.with(options) { fixture in
            let held = fixture.request("GET", fixture.package("1"), token: try fixture.derived("1"))
            let early = String(repeating: "GET /x HTTP/1.1\r\nHost: a\r\n\r\n", count: 550)
            var connections: [RawConnection] = []
            for _ in 0..<30 {
                let connection = try await RawConnection.open(port: fixture.port)
                connections.append(connection)
                try await connection.send(held + early)
            }
            // Each has 16 KiB and more.
            try await eventually("all but sixteen give way") { Self.gaveWay(fixture) >= 14 }
            #expect(Self.value(fixture, "waybill_request_bytes") <= Self.limit)
            try await fixture.put("1", token: try fixture.derived("1"))
            var ended = 0
            for connection in connections {
                let answer = try await connection.response()
                #expect(answer.status == 200, "the one in progress is answered")
                if answer["connection"] == "close" { ended += 1 }
                await connection.close()
            }
            #expect(ended >= 14)
            try await eventually("nothing is kept") { Self.value(fixture, "waybill_request_bytes") == 0 }
        }
    }

    /// A client that reads no answers decides how long its next requests wait, whole as they are.
    @Test func requestsThatWaitForTheirClientAreBounded() async throws {
        try await Fixture.with(try TLSSupport.options(requestLimit: nil, Self.edge())) { fixture in
            try await fixture.put("1")
            try await fixture.http2(streamWindow: 0) { wire in
                let get = Wire.fields("GET", fixture.package("1"), token: Fixture.ownToken)
                try await wire.connection.send((0..<10).flatMap { try wire.request(2 * $0 + 1, get) })
                func answers(_ labels: String) -> Int { Self.value(fixture, "waybill_responses_total{\(labels)}") }
                // 300 kB each.
                try await eventually("more is unread than may be") {
                    answers(#"endpoint="package",status="200""#) >= 4
                }
                for number in 10..<18 as Range<UInt32> {
                    let head = try wire.block(Wire.fields("POST", "/v1/log"))
                    try await wire.connection.send(
                        Wire.bytes(Wire.headers, flags: Wire.endHeaders, stream: 2 * number + 1, head))
                    try await wire.send(body: Self.part, of: 32, on: 2 * number + 1, isComplete: true)
                }
                try await eventually("all but four give way") { Self.gaveWay(fixture) >= 4 }
                #expect(Self.value(fixture, "waybill_request_bytes") <= Self.limit)
                try await eventually("they are answered") {
                    answers(#"endpoint="none",status="503""#) == Self.gaveWay(fixture)
                }
                try await wire.connection.send(Wire.bytes(Wire.ping, [1, 2, 3, 4, 5, 6, 7, 8]))
                #expect(try await wire.frame(Wire.ping).flags == Wire.ack, "the connection goes on")
            }
            try await eventually("nothing is kept") { Self.value(fixture, "waybill_request_bytes") == 0 }
        }
    }

    /// A request that a proxy passes on counts for the client that it names.
    @Test func oneClientOfAProxyLeavesRoomToTheOthers() async throws {
        var options = Fixture.Options()
        options.edge = Self.edge(proxies: Self.proxies)
        try await Fixture.with(options) { fixture in
            let other = try await RawConnection.open(port: fixture.port)
            let part = [UInt8](repeating: 32, count: Self.part)
            try await other.send(Array(Self.head("X-Forwarded-For: 203.0.113.1\r\n").utf8) + part)
            try await eventually("it is counted") { Self.value(fixture, "waybill_request_bytes") > Self.part }
            var connections: [RawConnection] = []
            for _ in 0..<20 {
                let connection = try await RawConnection.open(port: fixture.port)
                connections.append(connection)
                try await connection.send(Array(Self.head("X-Forwarded-For: 198.51.100.7\r\n").utf8) + part)
            }
            try await eventually("all but four give way") { Self.gaveWay(fixture) >= 16 }
            try await other.send(String(repeating: " ", count: 60_000 - Self.part))
            #expect(try await other.response().status == 400, "it is complete, though no list")
            for connection in connections + [other] { await connection.close() }
        }
    }

    /// A large body counts until its request is answered.
    @Test func aBodyIsKeptNoLongerThanItsAnswerTakes() async throws {
        var options = Fixture.Options()
        options.edge = Self.edge()
        try await Fixture.with(options) { fixture in
            let held = try await RawConnection.open(port: fixture.port)
            let body = String(repeating: "b", count: 60_000)
            try await held.send(
                fixture.request("GET", fixture.package("1"), token: try fixture.derived("1"), body: body))
            try await eventually("it is counted") { Self.value(fixture, "waybill_request_bytes") > 60_000 }
            try await fixture.put("1", token: try fixture.derived("1"))
            #expect(try await held.response().status == 200)
            #expect(Self.value(fixture, "waybill_request_bytes") == 0)
            await held.close()
        }
    }
}
