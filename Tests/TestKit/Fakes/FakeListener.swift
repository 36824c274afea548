import Synchronization

/// The server of a fake, from its start to its stop.
final class FakeListener: Sendable {
    private let server = Mutex<FakeServer?>(nil)

    /// Starts the server.
    /// - Returns: the port on 127.0.0.1.
    func start(port: Int, tls: FakeServer.TLS?, handler: @escaping FakeServer.Handler) async throws -> Int {
        let server = try await FakeServer.start(port: port, tls: tls, handler: handler)
        self.server.withLock { $0 = server }
        return server.port
    }

    func stop() async {
        let server = self.server.withLock { server in
            defer { server = nil }
            return server
        }
        await server?.stop()
    }
}
