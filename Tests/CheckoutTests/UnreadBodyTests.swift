import TestKit
import TestTraits
import Testing

/// Bodies that come without a right key, which is in the head.
@Suite(.server, .serialized, .timeLimit(.minutes(3))) struct UnreadBodyTests {
    typealias Wire = HTTP2Wire

    @Test func aBodyWithoutARightKeyIsNotRead() async throws {
        let certificates = try TLSSupport.made.get().first
        var options = CheckoutFixture.Options()
        options.environment = [
            "WAYBILL_TLS_CERTIFICATE": certificates.serverCertificate, "WAYBILL_TLS_KEY": certificates.serverKey,
        ]
        try await CheckoutFixture.with(options) { fixture in
            let connection = try await RawConnection.open(port: fixture.port, tls: TLSSupport.client(["h2"]))
            let wire = HTTP2Wire(connection)
            try await wire.start()
            let fields = Wire.fields("POST", "/v1/checkout/order-details", [("x-api-key", "sk_test_wrong")])
            try await connection.send(
                Wire.bytes(Wire.headers, flags: Wire.endHeaders, stream: 1, try wire.block(fields)))
            #expect(try await wire.response(1).status == 401)
            #expect(try await wire.frame(Wire.reset).errorCode == 0, "the body is not wanted")
            #expect(try await wire.exchange(3, Wire.fields("GET", "/nothing")).status == 404)
            await connection.close()
        }
    }

    /// The origin is in the head: a page that is no merchant's is refused without its body, others are waited for.
    @Test func aBodyOfAnUnknownPageIsNotRead() async throws {
        try await CheckoutFixture.with { fixture in
            for path in ["/applepay/payment", "/applepay/validate", "/applepay/order-details"] {
                for origin in ["", "Origin: https://nobody.example.com\r\n", "Origin: null\r\n"] {
                    let connection = try await RawConnection.open(port: fixture.port)
                    let answer = try await connection.exchange(
                        "POST \(path) HTTP/1.1\r\nHost: a\r\n\(origin)Content-Length: 10000\r\n\r\n")
                    #expect(answer.status == 403, "\(path) \(origin)")
                    #expect(answer["connection"] == "close")
                    await connection.close()
                }
            }
            let connection = try await RawConnection.open(port: fixture.port)
            let head = "POST /applepay/order-details HTTP/1.1\r\nHost: a\r\nOrigin: \(CheckoutFixture.origin)\r\n"
            let continued = try await connection.exchange(
                head + "Content-Type: application/json\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
            #expect(continued.status == 100)
            #expect(try await connection.exchange("{}").code == "missing_parameter")
            await connection.close()
        }
    }

    /// The sum over all connections, of requests whose heads are right.
    @Test func bodiesOfKnownPagesHaveABudget() async throws {
        try await CheckoutFixture.with { fixture in
            let head = [
                "POST /applepay/payment HTTP/1.1", "Host: a", "Origin: \(CheckoutFixture.origin)",
                "Content-Type: application/json", "Content-Length: 65536", "", "",
            ].joined(separator: "\r\n")
            let part = Array(head.utf8) + [UInt8](repeating: 32, count: 65_535)
            let before = try fixture.child.residentBytes()
            var connections: [RawConnection] = []
            for _ in 0..<400 {
                let connection = try await RawConnection.open(port: fixture.port)
                connections.append(connection)
                try? await connection.send(part)
            }
            let refused = try await connections[0].response()
            #expect(refused.status == 503)
            #expect(refused.code == "unavailable")
            #expect(refused["retry-after"] == "1")
            #expect(refused["access-control-allow-origin"] == CheckoutFixture.origin, "the page may read it")
            let grown = try fixture.child.residentBytes() - before
            #expect(grown < 22 << 20, "\(grown >> 20) MB of 25")
            #expect(try await fixture.once("GET", "/nothing").status == 404, "others are served")
            for connection in connections { await connection.close() }
        }
    }

    /// The key is in the head: a body that comes without a right one is not kept.
    @Test func bodiesWithoutARightKeyAreNotBuffered() async throws {
        try await CheckoutFixture.with { fixture in
            let head = [
                "POST /v1/checkout/order-details HTTP/1.1", "Host: a", "Authorization: Bearer sk_test_wrong",
                "Content-Type: application/json", "Content-Length: 1000000", "", "",
            ].joined(separator: "\r\n")
            // Each lacks its last byte.
            let part = Array(head.utf8) + [UInt8](repeating: 32, count: 999_999)
            let before = try fixture.child.residentBytes()
            var connections: [RawConnection] = []
            for _ in 0..<80 {
                let connection = try await RawConnection.open(port: fixture.port)
                connections.append(connection)
                // The other side may have closed by then.
                try? await connection.send(part)
            }
            let grown = try fixture.child.residentBytes() - before
            #expect(grown < 30 << 20, "\(grown >> 20) MB")
            var statuses: [Int: Int] = [:]
            for connection in connections {
                let answer = try await connection.response()
                statuses[answer.status, default: 0] += 1
                #expect(answer["connection"] == "close")
                await connection.close()
            }
            #expect(Set(statuses.keys) == [401, 429], "guesses are limited: \(statuses)")
            #expect((50..<70).contains(statuses[401] ?? 0), "\(statuses)")
        }
    }
}
