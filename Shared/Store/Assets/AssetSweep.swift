public import Model
import Redis

/// A sweep that cools orders, drops the packages of old versions, which are made again when they are asked for, and
/// deletes assets that no order names any more.
///
/// A scan reads the asset lists of all orders, then goes through the assets. One that no order names is marked as
/// unused. A later scan that begins at least a grace period after the mark and again finds no order deletes it, if the
/// mark still exists. That is safe while packagers run: packaging checks for each asset first, which removes its mark.
/// It may rely on an asset that it found for `AssetTiming.memory`, and Redis refuses its write after
/// `AssetTiming.write`. So a packager that saw the asset before it was marked has written long before the deciding scan
/// began, and one that saw it later has removed the mark. A sweeper that was suspended for days, or a second one at the
/// same time, changes nothing about this.
///
/// If it is interrupted at any point it leaves marks, which expire by themselves.
///
/// In a cluster a scan may miss an order whose slot moves meanwhile. Two scans a grace period apart do not both miss it
/// unless the slot moves during both; a scan during which slots got other masters decides nothing.
public struct AssetSweep: Sendable {
    /// Keys that Redis examines for one page, of any kind.
    public static let pageKeys = 500
    /// The time that a mark is kept beyond the grace period.
    private static let markSlack: Duration = .seconds(7 * 24 * 3600)
    /// Assets that are decided in one pipeline.
    private static let chunk = 100

    private let redis: RedisClient
    private let view: ViewEpochCache
    private let timing: AssetTiming
    private let cooling: Cooling
    /// Cools those of some old orders that can be cooled, and returns them; nil cools none.
    public var cool: Cool?
    /// Gets the orders and devices that have registrations; nil: they are not counted.
    public var adoption: AdoptionTotals?
    public typealias Cool = @Sendable ([OrderKey]) async throws -> Set<OrderKey>

    /// - Parameter timing: the same for all packagers.
    public init(
        _ view: ViewEpochCache, timing: AssetTiming = AssetTiming(), cooling: Cooling = Cooling(after: nil),
        cool: Cool? = nil
    ) {
        self.cool = cool
        self.redis = view.view.redis
        self.view = view
        self.timing = timing
        self.cooling = cooling
    }

    /// The result of a scan.
    public struct Counts: Hashable, Sendable {
        public var orders = 0
        /// Orders among them that are cold.
        public var cold = 0
        /// Packages that were dropped.
        public var dropped = 0
        /// Assets that remain.
        public var assets = 0
        /// Bytes of those; 0 if the user has no permission to query them (`+strlen`).
        public var bytes: Int64 = 0
        /// Bytes of the orders' own documents by order type.
        public var documentBytes: [OrderTypeIdentifier: Int64] = [:]
        /// Assets among them that are marked as unused.
        public var unused = 0
        public var swept = 0
        public var sweptBytes: Int64 = 0
    }

    /// Scans once.
    ///
    /// - Parameter pause: called after each page, to limit the rate and to keep the lease; it may throw to cancel the
    ///   scan.
    /// - Throws: `StoreError`, with code `.incomplete` if the view is being restored or slots moved; any error of
    ///   `pause`.
    public func run(_ pause: () async throws -> Void) async throws -> Counts {
        let topology = try await self.topology()
        let epochs = try await self.view.known()
        let began = try await self.clocks(topology)
        let documents = OwnDocumentBytes(redis: self.redis)
        let counted = try await documents.all()
        var counts = Counts()
        var marks = AssetMarks(salt: UInt64.random(in: 0...UInt64.max))
        try await self.scan("\(StoreKeys.anyOrder)*}", in: topology, pause) { page in
            counts.orders += page.keys.count
            let moments = self.cooling.moments(nowEpochSeconds: (began[page.master] ?? 0) / 1000)
            for (key, list) in try await self.assetLists(page.keys, moments, &counts) {
                for digest in digests(list) {
                    if !OwnDocument.isReference(digest) {
                        marks.insert(digest)
                    } else if let type = StoreKeys.order(ofKey: key)?.orderType {
                        counts.documentBytes[type, default: 0] += OwnDocument.bytes(of: digest)
                    }
                }
            }
        }
        // Orders of a view that was lost meanwhile will be restored later.
        try await self.confirm(epochs, topology, "sweeping assets")
        for type in Set(counted.keys).union(counts.documentBytes.keys) {
            // As a difference: it may have grown since the scan began.
            let difference = counts.documentBytes[type, default: 0] - counted[type, default: 0]
            if difference != 0 { try await documents.add(difference, of: type) }
        }
        try await self.scan("\(StoreKeys.assets.prefix)*\(StoreKeys.assets.suffix)", in: topology, pause) { page in
            let digests = Set(page.keys.compactMap { StoreKeys.digest(ofAsset: $0) })
            let unused = digests.filter { !marks.contains($0) }
            let before = (began[page.master] ?? 0) - self.timing.grace.wholeMilliseconds
            for start in stride(from: 0, to: unused.count, by: Self.chunk) {
                try await self.sweep(
                    Array(Array(unused)[start..<min(start + Self.chunk, unused.count)]), before, &counts)
            }
            try await self.count(Array(digests), &counts)
        }
        if let adoption { try await self.countRegistered(adoption, topology, epochs, pause) }
        return counts
    }

    /// Counts the orders with devices and the devices with orders: their keys exist as long as they have any.
    private func countRegistered(
        _ adoption: AdoptionTotals, _ topology: RedisTopology, _ epochs: MaterializedView.Epochs,
        _ pause: () async throws -> Void
    ) async throws {
        let standing = try await adoption.all()
        var counted: [AdoptionTotals.Level: [OrderTypeIdentifier: Int64]] = [:]
        try await self.scan(StoreKeys.anyRegistered, in: topology, pause) { page in
            for (brand, isOrder) in Set(page.keys).compactMap({ StoreKeys.brand(ofRegistered: $0) }) {
                counted[isOrder ? .orders : .devices, default: [:]][brand, default: 0] += 1
            }
        }
        // Those of a view that was lost meanwhile will be restored later.
        try await self.confirm(epochs, topology, "counting registrations")
        try await adoption.correct(standing, counted)
    }

    private func sweep(_ digests: [String], _ before: Int64, _ counts: inout Counts) async throws {
        let keep = (self.timing.grace + Self.markSlack).wholeMilliseconds
        let invocations = digests.map {
            RedisInvocation(
                StoreScripts.sweepAsset, keys: [StoreKeys.asset($0), StoreKeys.unusedMark($0)],
                arguments: [.integer(before), .integer(keep)])
        }
        for reply in try await self.redis.evaluate(invocations) {
            if case .error(let message) = reply {
                // A value that is not an asset cannot be swept.
                let error = StoreError("sweeping assets", reply: message)
                guard error.code == .corrupt else { throw error }
            }
            guard let verdict = reply.integer else { continue }
            switch verdict {
            case 1, 2: counts.unused += 1
            case ..<0:
                counts.swept += 1
                counts.sweptBytes += -1 - verdict
            default: break
            }
        }
    }

    /// Cools orders, and returns the asset lists of the others. A value that is not an order names nothing that could
    /// be served.
    ///
    /// The list of an order that may cool is that of before: if it is packaged meanwhile, its assets are in use.
    private func assetLists(
        _ keys: [String], _ moments: (any: Int64, ended: Int64), _ counts: inout Counts
    ) async throws -> [(key: String, list: String)] {
        let replies = try await self.redis.evaluate(
            keys.map {
                RedisInvocation(
                    StoreScripts.judge, keys: [$0], arguments: [.integer(moments.any), .integer(moments.ended)])
            })
        var lists: [(key: String, list: String)] = []
        var old: [OrderKey: (key: String, list: String)] = [:]
        for (key, reply) in zip(keys, replies) {
            switch reply {
            case .error(let message):
                let error = StoreError("sweeping assets", reply: message)
                guard error.code == .corrupt else { throw error }
            case .integer: counts.cold += 1
            case .array(let parts) where parts.count == 2:
                counts.dropped += parts[0] == .integer(1) ? 1 : 0
                let list = parts[1].text ?? ""
                if let order = StoreKeys.order(ofKey: key) {
                    old[order] = (key, list)
                } else {
                    lists.append((key, list))
                }
            default: if let list = reply.text { lists.append((key, list)) }
            }
        }
        let cooled = old.isEmpty ? [] : try await self.cool?(Array(old.keys)) ?? []
        counts.cold += cooled.count
        return lists + old.filter { !cooled.contains($0.key) }.values
    }

    private func count(_ digests: [String], _ counts: inout Counts) async throws {
        for reply in try await self.pipeline(digests.map { RedisCommand("STRLEN", .string(StoreKeys.asset($0))) }) {
            // An asset that was deleted just now has no length; without permission no length is known.
            guard reply != .integer(0) else { continue }
            counts.assets += 1
            counts.bytes += reply.integer ?? 0
        }
    }

    /// Keys of one master, as `SCAN` gives them: some of them twice.
    private typealias Page = (keys: [String], master: RedisMaster?, next: String?)

    /// Calls `body` with each page of the keys that match a pattern, and `pause` after it.
    private func scan(
        _ pattern: String, in topology: RedisTopology, _ pause: () async throws -> Void,
        _ body: (Page) async throws -> Void
    ) async throws {
        var cursor: String?
        repeat {
            let page = try await self.page(pattern, from: cursor, in: topology)
            try await body(page)
            cursor = page.next
            try await pause()
        } while cursor != nil
    }

    /// Makes sure that a scan saw all of a complete view.
    ///
    /// - Parameter what: the scan, for the error.
    private func confirm(
        _ epochs: MaterializedView.Epochs, _ topology: RedisTopology, _ what: String
    ) async throws {
        try await self.view.confirm(epochs)
        guard try await self.topology().slots == topology.slots else {
            throw StoreError(.incomplete, "\(what): slots of the cluster got other masters")
        }
    }

    private func page(_ pattern: String, from cursor: String?, in topology: RedisTopology) async throws -> Page {
        let place = ScanCursor(cursor, in: topology)
        var arguments: [RedisArgument] = [
            "SCAN", .string(place.position), "MATCH", .string(pattern), "COUNT", .integer(Int64(Self.pageKeys)),
        ]
        if let master = place.master { arguments.append(.place(.master(master))) }
        let reply = try await self.pipeline([RedisCommand(arguments)]).first
        if case .error(let message)? = reply { throw StoreError("sweeping assets", reply: message) }
        guard let parts = reply?.array, parts.count == 2, let next = parts[0].text, let keys = parts[1].array else {
            throw StoreError(.unavailable, "sweeping assets: an unexpected reply")
        }
        return (keys.compactMap(\.text), place.master, place.next(behind: next, in: topology))
    }

    /// Returns the time of each server's clock in milliseconds.
    private func clocks(_ topology: RedisTopology) async throws -> [RedisMaster?: Int64] {
        let places: [RedisMaster?] = topology.masters.isEmpty ? [nil] : topology.masters.map { $0 }
        let replies = try await self.pipeline(
            places.map { RedisCommand(["TIME"] + ($0.map { [.place(.master($0))] } ?? [])) })
        var clocks: [RedisMaster?: Int64] = [:]
        for (place, reply) in zip(places, replies) {
            guard let parts = reply.array, parts.count == 2, let seconds = parts[0].integer,
                let microseconds = parts[1].integer
            else { throw StoreError(.unavailable, "sweeping assets: a server does not report the time") }
            clocks[place] = seconds * 1000 + microseconds / 1000
        }
        return clocks
    }

    private func topology() async throws -> RedisTopology { try await self.redis.topology() }

    private func pipeline(_ commands: [RedisCommand]) async throws -> [RedisValue] {
        commands.isEmpty ? [] : try await self.redis.pipeline(commands)
    }

    private func evaluate(_ invocations: [RedisInvocation]) async throws -> [RedisValue] {
        guard !invocations.isEmpty else { return [] }
        let replies = try await self.redis.evaluate(invocations)
        for case .error(let message) in replies { throw StoreError("sweeping assets", reply: message) }
        return replies
    }
}

extension AssetSweep {
    /// Claims the sweep, or renews its lease.
    ///
    /// - Returns: false if it is not due, or another owner has it.
    public func claim(by owner: String, lease: Duration, period: Duration) async throws -> Bool {
        try await self.evaluate([
            RedisInvocation(
                StoreScripts.claimSweep, keys: [StoreKeys.sweep],
                arguments: [
                    .string(owner), .integer(lease.wholeMilliseconds), .integer(period.wholeMilliseconds),
                ])
        ]).first?.integer == 1
    }

    /// Ends the sweep, and makes it due again after a period.
    public func end(by owner: String, period: Duration) async throws {
        _ = try await self.evaluate([
            RedisInvocation(
                StoreScripts.endSweep, keys: [StoreKeys.sweep],
                arguments: [.string(owner), .integer(period.wholeMilliseconds)])
        ])
    }
}

/// The times of an asset's life. They ensure that no order ever names an asset that was swept: `memory` + `write` + the
/// difference of any two clocks must stay below `grace`.
public struct AssetTiming: Hashable, Sendable {
    /// The time for which a packager relies on an asset that it has seen.
    public var memory: Duration = .seconds(3600)
    /// From the beginning of packaging to the last moment at which Redis accepts the order.
    public var write: Duration = .seconds(6 * 3600)
    /// From the moment at which an asset was found unused to the earliest start of the scan that decides on it.
    public var grace: Duration = .seconds(24 * 3600)

    public init() {}
}

/// The assets that orders name, in 8 MiB regardless of their number: a Bloom filter.
///
/// It never forgets an asset that was inserted. It reports some others as inserted: one in 400 with four million
/// assets; those stay in Redis until the next scan, which uses another salt.
struct AssetMarks {
    private static let bitCount: UInt64 = 1 << 26
    private static let hashes: UInt64 = 4

    private var words = [UInt64](repeating: 0, count: Int(Self.bitCount / 64))
    private let salt: UInt64

    /// - Parameter salt: different for each scan.
    init(salt: UInt64) { self.salt = salt }

    mutating func insert(_ digest: some StringProtocol) {
        for place in self.places(digest) { self.words[Int(place >> 6)] |= 1 << (place & 63) }
    }

    func contains(_ digest: some StringProtocol) -> Bool {
        self.places(digest).allSatisfy { self.words[Int($0 >> 6)] & 1 << ($0 & 63) != 0 }
    }

    /// Returns the bits of a digest, by double hashing. The digests are SHA-256, so any hash distributes them.
    private func places(_ digest: some StringProtocol) -> [UInt64] {
        var first = Hasher()
        first.combine(self.salt)
        first.combine(String(digest))
        var second = first
        second.combine(1)
        let (one, two) = (UInt64(bitPattern: Int64(first.finalize())), UInt64(bitPattern: Int64(second.finalize())))
        return (0..<Self.hashes).map { (one &+ $0 &* (two | 1)) % Self.bitCount }
    }
}

/// The scripts about assets. An asset and its mark as unused are in one slot.
///
/// The mark is `<milliseconds of the server's clock>:<history of the server>`. Packaging with an asset removes it; only
/// an asset that kept its mark through the grace period, on a server that lost nothing meanwhile, is deleted.
extension StoreScripts {
    /// Checks that an asset exists, and removes its mark as unused.
    ///
    /// KEYS: asset, mark. Returns 1 if it exists, else 0.
    static let useAsset = RedisScript(
        """
        if redis.call('EXISTS', KEYS[2]) == 1 then redis.call('DEL', KEYS[2]) end
        return redis.call('EXISTS', KEYS[1])
        """)

    /// Marks or deletes an asset after a scan of all orders found none that names it.
    ///
    /// A server that does not report its history keeps all assets: it would go unnoticed that it forgot which orders
    /// use them.
    /// KEYS: asset, mark. ARGV: the millisecond, of this server's clock, before which the mark must have been set for
    /// the asset to be deleted; milliseconds to keep a mark.
    /// Returns 0 if nothing is to be done, 1 if the asset is now marked, 2 if it waits, and -1 - its bytes if it was
    /// deleted.
    static let sweepAsset = RedisScript(
        Self.history + """
            local here = history()
            local size = here ~= '' and redis.call('EXISTS', KEYS[1]) == 1 and #redis.call('GET', KEYS[1])
            if not size then return 0 end
            local since, of = string.match(redis.call('GET', KEYS[2]) or '', '^(%d+):(.*)$')
            if since and of == here then
              if tonumber(since) > tonumber(ARGV[1]) then return 2 end
              redis.call('DEL', KEYS[1], KEYS[2])
              return -1 - size
            end
            local time = redis.call('TIME')
            local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
            -- First, so that a Redis that is full takes it.
            redis.call('DEL', KEYS[2])
            redis.call('SET', KEYS[2], now .. ':' .. here, 'PX', ARGV[2])
            return 1
            """)

    /// Claims the sweep for one of the packagers, or renews its lease. The first sweep is due after a period.
    ///
    /// KEYS: sweep. ARGV: owner, milliseconds of the lease, milliseconds of the period. Returns 1 if the owner has the
    /// sweep; 0 if another owner has it, or it is not due.
    static let claimSweep = RedisScript(
        Self.clock + """
            local standing = redis.call('HMGET', KEYS[1], 'due', 'owner', 'lease')
            local due, lease = tonumber(standing[1] or ''), tonumber(standing[3] or '') or 0
            if not due and not standing[2] then
              redis.call('DEL', KEYS[1])
              redis.call('HSET', KEYS[1], 'due', string.format('%.0f', now + ARGV[3]))
              return 0
            end
            if due and due > now or standing[2] and standing[2] ~= ARGV[1] and lease > now then return 0 end
            redis.call('DEL', KEYS[1])
            redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'lease', string.format('%.0f', now + ARGV[2]))
            return 1
            """)

    /// Sets the time of the next sweep. KEYS: sweep. ARGV: owner, milliseconds until then. Returns 1, or 0 if another
    /// owner has the sweep by now.
    static let endSweep = RedisScript(
        Self.clock + """
            if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
            redis.call('DEL', KEYS[1])
            redis.call('HSET', KEYS[1], 'due', string.format('%.0f', now + ARGV[2]))
            return 1
            """)
}
