import NIOCore

/// The memory of requests that have arrived in part or wait, and the decision which of them give way. No clock.
///
/// A request counts for its client, for the client's network, and in all; there a large body counts until its request
/// is answered. Above a limit requests give way until an eighth of it is free: the fullest addresses and networks are
/// cut to one level, each by those of its requests that arrive slowest. All others keep theirs.
///
/// Bounded: each request counts as `overhead` at least.
struct BodyBudget: Sendable {
    struct Limits: Hashable, Sendable {
        /// Bytes of one client.
        var perAddress = 8 << 20
        /// Bytes of all clients of a network.
        var perNetwork = 32 << 20
        /// Bytes of all.
        var total = 64 << 20
    }

    /// The limit for which a request gave way, as a label.
    enum Scope: String, CaseIterable, Sendable { case address, network, total }

    struct Leaving: Hashable, Sendable {
        let request: ObjectIdentifier
        let scope: Scope
    }

    /// Bytes that each request counts for its head and its state, whatever has arrived of its body.
    static let overhead = 4 << 10
    /// The time after which it shows how fast a request arrives.
    static let grace = TimeAmount.seconds(1)

    private struct Part {
        let client: ClientAddress?
        let since: NIODeadline
        var bytes: Int
        /// True if all of the request has arrived and is being answered: it counts in the total only, and does not give
        /// way.
        var isWhole = false

        /// Bytes a second since the request began. One that began within `grace` does not give way while an older one
        /// is left.
        func pace(at now: NIODeadline) -> Double {
            let age = now - self.since
            guard age >= BodyBudget.grace else { return .greatestFiniteMagnitude }
            return Double(self.bytes) / Double(age.nanoseconds)
        }
    }

    private struct Address {
        var bytes = 0
        var requests: Set<ObjectIdentifier> = []
    }

    private struct Network {
        var bytes = 0
        var addresses: [ClientAddress?: Address] = [:]
    }

    private let limits: Limits
    private var parts: [ObjectIdentifier: Part] = [:]
    /// Those of a proxy that names no client are of no network.
    private var networks: [ClientNetwork?: Network] = [:]
    /// Bytes of all requests that are counted.
    private(set) var held = 0

    init(_ limits: Limits) { self.limits = limits }

    /// The number of requests that are counted.
    var count: Int { self.parts.count }

    /// Notes the memory of a request that has arrived in part.
    ///
    /// - Parameter client: always the same; nil for a proxy, which many clients share, so that the total counts only.
    /// - Returns: the requests that give way; they count no longer.
    mutating func arrived(
        _ request: ObjectIdentifier, of client: ClientAddress?, bytes: Int, at now: NIODeadline
    ) -> [Leaving] {
        let bytes = bytes + Self.overhead
        let former = self.parts[request]?.bytes ?? 0
        self.parts[request, default: Part(client: client, since: now, bytes: 0)].bytes = bytes
        self.add(bytes - former, request, client)
        return self.leaving(client, at: now)
    }

    /// Notes that all of a request has arrived and is being answered, whether a part of it was noted before or not.
    ///
    /// - Returns: the requests that give way; they count no longer.
    mutating func completed(
        _ request: ObjectIdentifier, of client: ClientAddress?, bytes: Int, at now: NIODeadline
    ) -> [Leaving] {
        self.ended(request)
        self.parts[request] = Part(client: client, since: now, bytes: bytes + Self.overhead, isWhole: true)
        self.held += bytes + Self.overhead
        return self.leaving(client, at: now)
    }

    /// Notes that a request was answered, or will never be; nothing happens if it does not count.
    mutating func ended(_ request: ObjectIdentifier) {
        guard let part = self.parts.removeValue(forKey: request) else { return }
        guard !part.isWhole else {
            self.held -= part.bytes
            return
        }
        let (client, network) = (part.client, part.client?.network)
        self.add(-part.bytes, request, client)
        self.networks[network]?.addresses[client]?.requests.remove(request)
        if self.networks[network]?.addresses[client]?.requests.isEmpty == true {
            self.networks[network]?.addresses[client] = nil
        }
        if self.networks[network]?.addresses.isEmpty == true { self.networks[network] = nil }
    }

    private mutating func add(_ bytes: Int, _ request: ObjectIdentifier, _ client: ClientAddress?) {
        self.held += bytes
        let network = client?.network
        self.networks[network, default: Network()].bytes += bytes
        self.networks[network, default: Network()].addresses[client, default: Address()].bytes += bytes
        self.networks[network, default: Network()].addresses[client, default: Address()].requests.insert(request)
    }

    // MARK: Giving way

    private mutating func leaving(_ client: ClientAddress?, at now: NIODeadline) -> [Leaving] {
        var leaving: [Leaving] = []
        if let client, self.networks[client.network]?.addresses[client]?.bytes ?? 0 > self.limits.perAddress {
            self.cut(address: client, to: Self.goal(self.limits.perAddress), .address, at: now, &leaving)
        }
        if let network = client?.network, self.networks[network]?.bytes ?? 0 > self.limits.perNetwork {
            self.cut(network: network, to: Self.goal(self.limits.perNetwork), .network, at: now, &leaving)
        }
        guard self.held > self.limits.total else { return leaving }
        let whole = self.held - self.networks.values.reduce(0) { $0 + $1.bytes }
        let level = Self.level(self.networks.values.map(\.bytes), fitting: Self.goal(self.limits.total) - whole)
        for (network, content) in self.networks where content.bytes > level {
            self.cut(network: network, to: level, .total, at: now, &leaving)
        }
        return leaving
    }

    private mutating func cut(
        network: ClientNetwork?, to goal: Int, _ scope: Scope, at now: NIODeadline, _ leaving: inout [Leaving]
    ) {
        let addresses = self.networks[network]?.addresses ?? [:]
        let level = Self.level(addresses.values.map(\.bytes), fitting: goal)
        for (client, content) in addresses where content.bytes > level {
            self.cut(address: client, to: level, scope, at: now, &leaving)
        }
    }

    private mutating func cut(
        address client: ClientAddress?, to goal: Int, _ scope: Scope, at now: NIODeadline, _ leaving: inout [Leaving]
    ) {
        guard let address = self.networks[client?.network]?.addresses[client] else { return }
        let slowest = address.requests.compactMap { request in self.parts[request].map { (request, $0) } }
            .map { request, part in (request: request, bytes: part.bytes, pace: part.pace(at: now), since: part.since) }
            .sorted { ($0.pace, $0.since) < ($1.pace, $1.since) }
        var rest = address.bytes
        for (request, bytes, _, _) in slowest {
            guard rest > goal else { return }
            rest -= bytes
            self.ended(request)
            leaving.append(Leaving(request: request, scope: scope))
        }
    }

    /// Bytes that remain after requests gave way, so that the next ones are not looked for at once.
    private static func goal(_ limit: Int) -> Int { limit - limit / 8 }

    /// Returns the most bytes that each of several may keep so that together they have no more than `goal`.
    static func level(_ amounts: [Int], fitting goal: Int) -> Int {
        var rest = max(0, goal)
        for (index, amount) in amounts.sorted().enumerated() {
            let share = rest / (amounts.count - index)
            guard amount <= share else { return share }
            rest -= amount
        }
        return Int.max
    }
}
