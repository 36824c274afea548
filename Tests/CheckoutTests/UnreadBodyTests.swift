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
