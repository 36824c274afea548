import Foundation
import Glibc
import Synchronization

/// A `redis-server` for one test, with its own port and folder; nothing is saved by default.
///
/// `WAYBILL_TEST_REDIS` (a URL) makes `shared()` return that server instead of starting one. It cannot be stopped, and
/// others may use it, so tests on `shared()` use their own keys. Tests that stop, restart or configure a server call
/// `start()`.
/// `WAYBILL_TEST_CLUSTER=1` makes `start()` return a cluster of three masters that is started, stopped and killed as a
/// unit: everything that a test expects of a server must work there too.
public final class RedisServer: Sendable {
    /// `redis://127.0.0.1:<port>`, or the value from the environment.
    public let url: String
    /// The port of 127.0.0.1 on which it listens; 0 if the environment named the server.
    public let port: Int

    private let ports: [ReservedPort]
    private let arguments: [String]
    private let directory: TemporaryDirectory?
    private let child: Mutex<ChildProcess?>
    /// The cluster that this object represents; nil for a single server.
    public let cluster: RedisCluster?

    private init(
        url: String, port: Int, ports: [ReservedPort] = [], arguments: [String], directory: TemporaryDirectory?,
        cluster: RedisCluster? = nil
    ) {
        self.ports = ports
        self.cluster = cluster
        self.url = url
        self.port = port
        self.arguments = arguments
        self.directory = directory
        self.child = Mutex(nil)
    }

    /// Returns the server named by `WAYBILL_TEST_REDIS`, or a new one.
    public static func shared() async throws -> RedisServer {
        try TestServers.use("redis-server")
        if let pointer = unsafe getenv("WAYBILL_TEST_REDIS") {
            return RedisServer(url: unsafe String(cString: pointer), port: 0, arguments: [], directory: nil)
        }
        return try await self.start()
    }

    /// Starts a new server and returns when it accepts connections. Its port remains reserved while it is stopped.
    /// - Parameter arguments: added to the command line, for example `["--appendonly", "yes"]`.
    public static func start(_ arguments: [String] = []) async throws -> RedisServer {
        guard let flag = unsafe getenv("WAYBILL_TEST_CLUSTER"), unsafe String(cString: flag) == "1" else {
            return try await Self.startAlone(arguments)
        }
        return try await Self.startCluster(arguments)
    }

    /// Does the same as `start`, but always starts a cluster.
    public static func startCluster(_ arguments: [String] = []) async throws -> RedisServer {
        let cluster = try await RedisCluster.start(arguments: arguments)
        let first = cluster.masters[0]
        return RedisServer(url: first.url, port: first.port, arguments: [], directory: nil, cluster: cluster)
    }

    /// Does the same as `start`, but never starts a cluster.
    /// - Parameter others: ports that the arguments name, reserved like the server's own.
    public static func startAlone(
        _ arguments: [String] = [], keeping others: [ReservedPort] = []
    ) async throws -> RedisServer {
        let port = try ReservedPort()
        let server = RedisServer(
            url: "redis://127.0.0.1:\(port.number)", port: port.number, ports: [port] + others, arguments: arguments,
            directory: try TemporaryDirectory("redis"))
        try await server.restart()
        return server
    }

    /// Starts the server again on the same port with the same folder, after `stop()` or `kill()`.
    public func restart() async throws {
        if let cluster {
            for master in cluster.masters { try await master.restart() }
            try await cluster.untilWhole()
        }
        guard let directory = self.directory else { return }
        let options = [
            "--port", "\(self.port)", "--bind", "127.0.0.1", "--dir", directory.path, "--save", "",
            "--appendonly", "no", "--daemonize", "no", "--logfile", "",
        ]
        let child = try ChildProcess("redis-server", options + self.arguments)
        self.child.withLock { $0 = child }
        try await child.line(containing: "Ready to accept connections")
    }

    /// A copy of the data on disk of a server started with `--appendonly yes`, for `putBack`.
    public struct Saved: Sendable {
        fileprivate let copies: [TemporaryDirectory]
    }

    /// Copies the data on disk. With `--appendfsync no` the copy has every write that the server has answered.
    public func saved() throws -> Saved {
        Saved(
            copies: try (self.cluster?.masters ?? [self]).map { server in
                let copy = try TemporaryDirectory("redis-copy")
                if let directory = server.directory {
                    try FileManager.default.copyItem(
                        atPath: directory.path(Self.appendOnlyFolder), toPath: copy.path(Self.appendOnlyFolder))
                }
                return copy
            })
    }

    /// Restores an older copy of the data; the server must not be running.
    public func putBack(_ saved: Saved) throws {
        for (server, copy) in zip(self.cluster?.masters ?? [self], saved.copies) {
            guard let directory = server.directory else { continue }
            try FileManager.default.removeItem(atPath: directory.path(Self.appendOnlyFolder))
            try FileManager.default.copyItem(
                atPath: copy.path(Self.appendOnlyFolder), toPath: directory.path(Self.appendOnlyFolder))
        }
    }

    /// Source: redis.conf, `appenddirname`
    private static let appendOnlyFolder = "appendonlydir"

    /// Ends the server as an operator would: SIGTERM, then SIGKILL after five seconds.
    public func stop() async {
        await self.cluster?.stop()
        _ = await self.child.withLock { $0 }?.stop()
    }

    /// Kills the server and returns when it has ended.
    public func kill() async {
        for master in self.cluster?.masters ?? [] { await master.kill() }
        let child = self.child.withLock { $0 }
        child?.signal(SIGKILL)
        _ = await child?.stop()
    }

    /// Sends a signal, for example SIGSTOP to make a server unresponsive.
    public func signal(_ number: Int32) {
        for master in self.cluster?.masters ?? [] { master.signal(number) }
        self.child.withLock { $0 }?.signal(number)
    }

    /// Runs a command with `redis-cli`, to bypass the client under test.
    /// - Throws: an error if the answer is an error.
    @discardableResult
    public func command(_ words: String...) async throws -> String {
        try await self.command(words)
    }

    /// Does the same with an array of words.
    @discardableResult
    public func command(_ words: [String]) async throws -> String {
        let answer = try await ChildProcess.run("redis-cli", ["-e", "-p", "\(self.port)"] + words)
        return answer.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    /// Runs a command on this server, or on each master of the cluster that it represents, and returns all answers. Use
    /// it to count a server's operations: `command` asks the first master only.
    @discardableResult
    public func everywhere(_ words: String...) async throws -> [String] {
        var answers: [String] = []
        for server in self.cluster?.masters ?? [self] { answers.append(try await server.command(words)) }
        return answers
    }

    /// Waits until a command's answer contains a text.
    public func until(_ text: String, in words: String..., within limit: Duration = .seconds(20)) async throws {
        let deadline = ContinuousClock.now + limit
        while true {
            let answer = try await self.command(words)
            if answer.contains(text) { return }
            guard ContinuousClock.now < deadline else {
                throw ChildProcess.Failure(description: "no \(text) in \(words) after \(limit): \(answer.suffix(2000))")
            }
            try await Task.sleep(for: .milliseconds(20))
        }
    }
}
