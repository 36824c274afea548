/// A master, a replica and three sentinels for one test.
///
/// The servers require a password; the sentinels do not, as is usual. A master that does not answer for half a second
/// is replaced.
public final class RedisSentinel: Sendable {
    /// The sentinels' name for the master.
    public static let masterName = "the-master"
    /// The servers' password.
    public static let password = "secret"

    /// The first master.
    public let master: RedisServer
    /// Its replica.
    public let replica: RedisServer
    private let sentinels: [ChildProcess]
    private let ports: [ReservedPort]
    private let directory: TemporaryDirectory

    private init(
        master: RedisServer, replica: RedisServer, sentinels: [ChildProcess], ports: [ReservedPort],
        directory: TemporaryDirectory
    ) {
        self.master = master
        self.replica = replica
        self.sentinels = sentinels
        self.ports = ports
        self.directory = directory
    }

    /// `redis+sentinel://…` with all sentinels.
    public var url: String {
        let addresses = self.ports.map { "127.0.0.1:\($0.number)" }.joined(separator: ",")
        return "redis+sentinel://:\(Self.password)@\(addresses)/\(Self.masterName)"
    }

    /// Starts all servers and returns when the sentinels know the replica and each other.
    public static func start() async throws -> RedisSentinel {
        let options = [
            "--requirepass", Self.password, "--masterauth", Self.password, "--repl-diskless-sync-delay", "0",
        ]
        let master = try await RedisServer.startAlone(options)
        let replica = try await RedisServer.startAlone(options + ["--replicaof", "127.0.0.1", "\(master.port)"])
        let directory = try TemporaryDirectory("sentinel")
        var sentinels: [ChildProcess] = []
        var ports: [ReservedPort] = []
        for number in 1...3 {
            let port = try ReservedPort()
            let file = try directory.write(
                "sentinel-\(number).conf",
                """
                port \(port.number)
                bind 127.0.0.1
                sentinel monitor \(Self.masterName) 127.0.0.1 \(master.port) 2
                sentinel auth-pass \(Self.masterName) \(Self.password)
                sentinel down-after-milliseconds \(Self.masterName) 500
                sentinel failover-timeout \(Self.masterName) 2000

                """)
            sentinels.append(try ChildProcess("redis-server", [file, "--sentinel"], workingDirectory: directory.path))
            ports.append(port)
        }
        let all = RedisSentinel(
            master: master, replica: replica, sentinels: sentinels, ports: ports, directory: directory)
        do {
            for port in ports {
                try await all.until(port.number, "num-slaves", is: "1")
                try await all.until(port.number, "num-other-sentinels", is: "2")
            }
        } catch {
            await all.stop()
            throw error
        }
        return all
    }

    /// Ends all servers.
    public func stop() async {
        for sentinel in self.sentinels { await sentinel.stop() }
        await self.replica.stop()
        await self.master.stop()
    }

    /// Waits until a sentinel reports a value in a field of the master.
    private func until(_ port: Int, _ field: String, is value: String) async throws {
        let deadline = ContinuousClock.now + .seconds(20)
        while true {
            let answer = try await ChildProcess.run(
                "sh", ["-c", "redis-cli -p \(port) sentinel master \(Self.masterName) || true"])
            let lines = answer.split(whereSeparator: \.isNewline)
            let index = lines.firstIndex(of: field[...]).map { $0 + 1 }
            if let index, index < lines.count, lines[index] == value { return }
            guard ContinuousClock.now < deadline else {
                throw ChildProcess.Failure(description: "\(field) is not \(value): \(answer)")
            }
            try await Task.sleep(for: .milliseconds(50))
        }
    }
}
