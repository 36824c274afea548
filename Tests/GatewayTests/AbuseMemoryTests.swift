import TestKit
import TestTraits
import Testing

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
}
