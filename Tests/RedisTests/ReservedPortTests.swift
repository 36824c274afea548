import NIOCore
import NIOPosix
import TestTraits
import Testing

@testable import TestKit

@Suite struct ReservedPortTests {
    private func listen(_ port: Int, again: Bool) async throws -> any Channel {
        try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: again ? 1 : 0)
            .bind(host: "127.0.0.1", port: port).get()
    }

    @Test(.server) func connectionsAreRefusedUnlessAServerListens() async throws {
        let port = try ReservedPort()
        for _ in 0..<3 {
            await #expect(throws: (any Error).self) { try await RawConnection.open(port: port.number) }
            let server = try await self.listen(port.number, again: true)
            let connection = try await RawConnection.open(port: port.number)
            try await server.close()
            await connection.close()
        }
        await #expect(throws: (any Error).self) { try await RawConnection.open(port: port.number) }
        port.release()
    }

    @Test func aReservedPortIsUnavailableToOthers() async throws {
        let port = try ReservedPort()
        await #expect(throws: (any Error).self) { try await self.listen(port.number, again: false) }
        let others = try (0..<500).map { _ in try ReservedPort() }
        #expect(!others.contains { $0.number == port.number })
        #expect(Set(others.map(\.number)).count == others.count)
        for other in others { other.release() }
        let server = try await self.listen(port.number, again: true)
        #expect(throws: ReservedPort.Failure.self) { try ReservedPort(UInt16(truncatingIfNeeded: port.number)) }
        try await server.close()
        port.release()
    }
}
