/// A Redis cluster for one test: masters that share the slots evenly, optionally with one replica each.
///
/// The start takes about two seconds: a new node waits that long before it serves slots (Redis cluster.c,
/// `CLUSTER_WRITABLE_DELAY`). With replicas, a master that does not answer for a second is replaced by its replica.
/// Without replicas the others wait for it longer than a busy machine can hold up a server: nothing could replace it.
public final class RedisCluster: Sendable {
    /// The masters; initially each serves its share of the slots.
    public let masters: [RedisServer]
    /// The replicas in the order of their masters; empty without replicas.
    public let replicas: [RedisServer]
    /// The servers' certificate for clients and for each other; nil without TLS.
    public let certificate: ServerCertificate?
    private let firstTLSPort: Int

    private init(
        masters: [RedisServer], replicas: [RedisServer], certificate: ServerCertificate?, firstTLSPort: Int
    ) {
        self.masters = masters
        self.replicas = replicas
        self.certificate = certificate
        self.firstTLSPort = firstTLSPort
    }

    /// The URL of one node.
    public var url: String { self.masters[0].url }

    /// A URL that names all masters.
    public var seedsURL: String { "redis://" + self.masters.map { "127.0.0.1:\($0.port)" }.joined(separator: ",") }

    /// Host and port of one node, for clients with TLS.
    public var tlsAddress: String { "127.0.0.1:\(self.firstTLSPort)" }

    /// Starts a cluster and returns when all its nodes report that it is complete.
    /// - Parameters:
    ///   - isEncrypted: true if clients may use TLS; they are redirected to the TLS ports of the others.
    ///   - arguments: added to each server's command line.
    public static func start(
        masters: Int = 3, withReplicas: Bool = false, isEncrypted: Bool = false, arguments: [String] = []
    ) async throws -> RedisCluster {
        let certificate = isEncrypted ? try await ServerCertificate() : nil
        var firstTLSPort = 0
        var servers: [RedisServer] = []
        do {
            for _ in 0..<(withReplicas ? 2 * masters : masters) {
                // The usual bus port, 10,000 above the server's, may be in use by another server on this address.
                let bus = try ReservedPort()
                var (arguments, ports) = (arguments, [bus])
                if let certificate {
                    let port = try ReservedPort()
                    if firstTLSPort == 0 { firstTLSPort = port.number }
                    ports.append(port)
                    arguments += ["--tls-cluster", "yes", "--tls-replication", "yes"]
                    arguments += certificate.redisArguments(port: port.number)
                }
                servers.append(
                    try await Self.node(
                        bus, timeoutMilliseconds: withReplicas ? 1000 : 10_000, arguments, keeping: ports))
            }
            let cluster = RedisCluster(
                masters: Array(servers[..<masters]), replicas: Array(servers[masters...]), certificate: certificate,
                firstTLSPort: firstTLSPort)
            try await cluster.join()
            return cluster
        } catch {
            for server in servers { await server.stop() }
            throw error
        }
    }

    private static func node(
        _ bus: ReservedPort, timeoutMilliseconds: Int, _ arguments: [String] = [], keeping ports: [ReservedPort]
    ) async throws -> RedisServer {
        try await RedisServer.startAlone(
            [
                "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-node-timeout",
                "\(timeoutMilliseconds)", "--cluster-port", "\(bus.number)", "--cluster-replica-validity-factor", "0",
                "--repl-diskless-sync-delay", "0",
            ] + arguments, keeping: ports)
    }

    /// Starts one more master, which has no slots and is not among `masters`; the caller stops it.
    public func addMaster() async throws -> RedisServer {
        let bus = try ReservedPort()
        let server = try await Self.node(bus, timeoutMilliseconds: 10_000, keeping: [bus])
        let known = self.masters.count + self.replicas.count
        try await self.meet(server)
        for one in self.masters + self.replicas + [server] {
            try await one.until("cluster_known_nodes:\(known + 1)", in: "cluster", "info")
        }
        try await server.until("cluster_state:ok", in: "cluster", "info")
        return server
    }

    /// Waits until all nodes, which must be running, report that all slots are served.
    public func untilWhole() async throws {
        for server in self.masters + self.replicas { try await server.until("cluster_state:ok", in: "cluster", "info") }
    }

    /// Ends all servers.
    public func stop() async {
        await withTaskGroup(of: Void.self) { group in
            for server in self.masters + self.replicas { group.addTask { await server.stop() } }
        }
    }

    /// Moves the given slot from one master to another, step by step as `redis-cli --cluster reshard` does.
    /// - Parameter key: called with each key before it is moved.
    public func move(
        slot: Int, from source: RedisServer, to target: RedisServer, each key: (String) async throws -> Void = { _ in }
    ) async throws {
        let (sourceName, targetName) = (
            try await source.command("cluster", "myid"), try await target.command("cluster", "myid")
        )
        try await target.command("cluster", "setslot", "\(slot)", "importing", sourceName)
        try await source.command("cluster", "setslot", "\(slot)", "migrating", targetName)
        while true {
            let keys = try await source.command("cluster", "getkeysinslot", "\(slot)", "20")
                .split(whereSeparator: \.isNewline).map(String.init)
            if keys.isEmpty { break }
            for name in keys {
                try await key(name)
                try await source.command("migrate", "127.0.0.1", "\(target.port)", name, "0", "5000")
            }
        }
        for server in [target, source] { try await server.command("cluster", "setslot", "\(slot)", "node", targetName) }
    }

    private func join() async throws {
        let share = (16384 + self.masters.count - 1) / self.masters.count
        for (index, master) in self.masters.enumerated() {
            let (first, last) = (index * share, min((index + 1) * share, 16384) - 1)
            try await master.command("cluster", "addslotsrange", "\(first)", "\(last)")
            try await master.command("cluster", "set-config-epoch", "\(index + 1)")
        }
        for server in (self.masters + self.replicas).dropFirst() { try await self.meet(server) }
        for server in self.masters + self.replicas {
            try await server.until(
                "cluster_known_nodes:\(self.masters.count + self.replicas.count)", in: "cluster", "info")
        }
        for (master, replica) in zip(self.masters, self.replicas) {
            let name = try await master.command("cluster", "myid")
            try await replica.until(name, in: "cluster", "nodes")
            try await replica.command("cluster", "replicate", name)
        }
        try await self.untilWhole()
        for replica in self.replicas { try await replica.until("master_link_status:up", in: "info", "replication") }
        // Every node must know all slots: it learns the slots of the others by gossip.
        for server in self.masters + self.replicas {
            try await server.until("cluster_slots_ok:16384", in: "cluster", "info")
        }
    }

    private func meet(_ server: RedisServer) async throws {
        let lines = try await server.command("config", "get", "cluster-port").split(whereSeparator: \.isNewline)
        let bus = lines.last ?? ""
        try await self.masters[0].command("cluster", "meet", "127.0.0.1", "\(server.port)", String(bus))
    }
}
