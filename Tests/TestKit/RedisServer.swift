import Glibc
import NIOCore
import NIOPosix
import Synchronization

/// A `redis-server` for one test: own port, own folder, nothing saved unless asked for.
///
/// `WAYBILL_TEST_REDIS` (a URL) makes `shared()` return that server instead of starting one; nothing can be stopped
/// there and others may use it, so tests on `shared()` use keys of their own. Tests that stop, restart or configure a
/// server call `start()`.
public final class RedisServer: Sendable {
    /// `redis://127.0.0.1:<port>`, or what the environment gave.
    public let url: String
    /// The port of 127.0.0.1 it listens on; 0 when the environment gave the server.
    public let port: Int

    private let arguments: [String]
    private let directory: TemporaryDirectory?
    private let child: Mutex<ChildProcess?>

    private init(url: String, port: Int, arguments: [String], directory: TemporaryDirectory?) {
        self.url = url
        self.port = port
        self.arguments = arguments
        self.directory = directory
        self.child = Mutex(nil)
    }

    /// The server given by `WAYBILL_TEST_REDIS`, or a new one.
    public static func shared() async throws -> RedisServer {
        if let pointer = unsafe getenv("WAYBILL_TEST_REDIS") {
            return RedisServer(url: unsafe String(cString: pointer), port: 0, arguments: [], directory: nil)
        }
        return try await self.start()
    }

    /// Starts a new server and returns when it accepts connections.
    ///
    /// Another program may take the free port before the server does; then the next port is tried.
    /// - Parameter arguments: added to the command line, for example `["--appendonly", "yes"]`.
    public static func start(_ arguments: [String] = []) async throws -> RedisServer {
        var attempt = 1
        while true {
            let port = try await freeTCPPort()
            let directory = try TemporaryDirectory("redis")
            let server = RedisServer(
                url: "redis://127.0.0.1:\(port)", port: port, arguments: arguments, directory: directory)
            do {
                try await server.restart()
                return server
            } catch  where attempt < 3 {
                attempt += 1
            }
        }
    }

    /// Starts it again on the same port with the same folder, after `stop()` or `kill()`.
    public func restart() async throws {
        guard let directory = self.directory else { return }
        let options = [
            "--port", "\(self.port)", "--bind", "127.0.0.1", "--dir", directory.path, "--save", "",
            "--appendonly", "no", "--daemonize", "no", "--logfile", "",
        ]
        let child = try ChildProcess("redis-server", options + self.arguments)
        self.child.withLock { $0 = child }
        try await child.line(containing: "Ready to accept connections")
    }

    /// Ends it as an operator would: SIGTERM, then SIGKILL after five seconds.
    public func stop() async { _ = await self.child.withLock { $0 }?.stop() }

    /// Ends it at once and returns when it is gone.
    public func kill() async {
        let child = self.child.withLock { $0 }
        child?.signal(SIGKILL)
        _ = await child?.stop()
    }

    /// Sends a signal, for example SIGSTOP to make a server that does not answer.
    public func signal(_ number: Int32) { self.child.withLock { $0 }?.signal(number) }
}

/// A TCP port of 127.0.0.1 that nobody listened on a moment ago.
public func freeTCPPort() async throws -> Int {
    let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
        .bind(host: "127.0.0.1", port: 0).get()
    // A bound TCP server channel has an address with a port.
    let port = channel.localAddress!.port!
    try await channel.close()
    return port
}
