import TestKit
import TestTraits
import Testing

@testable import Gateway

/// The memory of a client's requests is freed once they are answered.
@Suite(.server, .serialized, .timeLimit(.minutes(3))) struct AbuseMemoryTests {
    @Test func answeredRequestsAreFreedOnAnOpenConnection() async throws {
        let gateway = try await GatewayProcess()
        do {
            let body = String(repeating: "b", count: 60_000)
            let request = Array("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n\(body)".utf8)
            let part = (0..<20).flatMap { _ in request }
            let connection = try await RawConnection.open(port: gateway.port)
            try await connection.send([part[0]])
            let before = try gateway.residentBytes()
            // 240 MB in total; after each round the first byte of the next request has arrived.
            for _ in 0..<200 {
                try await connection.send(Array(part.dropFirst()) + [part[0]])
                for _ in 0..<20 { #expect(try await connection.response().status == 404) }
            }
            let grown = try gateway.residentBytes() - before
            #expect(grown < 60 << 20, "\(grown >> 20) MB")
            await connection.close()
            await gateway.stop()
        } catch {
            await gateway.stop()
            throw error
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
