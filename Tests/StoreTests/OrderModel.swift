import Model
import NIOCore
import Redis
import Synchronization
import TestKit

@testable import Store

/// One order in Redis, its topic, and two packagers that work on it: the steps that each of them may take next.
///
/// The scripts are atomic, so what can go wrong is a sequence of them: a world is what is there between two steps. Each
/// step runs the real code on a real Redis.
struct OrderModel: Sendable {
    static let packagers = 2
    /// The most versions of the order, and the most changes of each packager.
    static let versions: Int64 = 3
    static let changes: Int64 = 1

    /// The work that a packager has in hand, from reading the order to noting that its record was acknowledged.
    enum Hand: Sendable {
        case nothing
        case read(OrderStore.Entry)
        /// A state that was written, or announced again, and is not on the topic yet.
        case written(OrderState, mark: String, isSilent: Bool, isRequested: Bool)
        case published(OrderStore.Publication, OrderState, mark: String, offset: Int)
    }

    /// All that is there between two steps.
    struct World: Sendable {
        /// The fields of the order's hash.
        var fields: [String: [UInt8]] = [:]
        /// True if a removal of the order is remembered.
        var isGone = false
        var hasDevice = false
        /// The records of the topic, by offset; the last one is what compaction leaves.
        var log: [OrderState] = []
        /// The offsets of those that are not silent.
        var announced: Set<Int> = []
        /// The state for which the last request to announce the order again was taken.
        var request: OrderState?
        var hands = [Hand](repeating: .nothing, count: OrderModel.packagers)
    }

    enum Step: Hashable, Sendable, CustomStringConvertible {
        case read(Int)
        case write(Int, Kind)
        case publish(Int)
        case note(Int)
        /// The packager is killed, or gives up.
        case end(Int)
        case sweep
        /// A packager writes while the sweep verifies that the topic has the order.
        case sweepBeside(Int, Kind)
        /// The last record of the topic is restored.
        case restore
        /// Redis loses everything, and the last record of the topic is restored.
        case lose
        case register
        case unregister

        enum Kind: String, CaseIterable, Sendable {
            case packaged, unpackaged, renewed, signature, requested, unrecorded, positions, announced, removal, waiting
            /// Announces the version that was read.
            case again
        }

        /// False if Redis is the same after it.
        var isOfRedis: Bool {
            switch self {
            case .read, .publish, .end, .write(_, .again): false
            case .write, .note, .sweep, .sweepBeside, .restore, .lose, .register, .unregister: true
            }
        }

        var description: String {
            switch self {
            case .read(let hand): "\(hand) reads"
            case .write(let hand, let kind): "\(hand) writes \(kind)"
            case .publish(let hand): "\(hand) publishes"
            case .note(let hand): "\(hand) notes"
            case .end(let hand): "\(hand) ends"
            case .sweep: "sweep"
            case .sweepBeside(let hand, let kind): "sweep while \(hand) writes \(kind)"
            case .restore: "restore"
            case .lose: "loss"
            case .register: "register"
            case .unregister: "unregister"
            }
        }
    }

    let redis: RedisClient
    let key: OrderKey
    /// The kinds of writes that are taken.
    let kinds: [Step.Kind]
    /// True if a device may register.
    let hasDevices: Bool
    private let registration: RegistrationKey
    private let device: RegistrationRecord

    init(redis: RedisClient, kinds: [Step.Kind] = Step.Kind.allCases, hasDevices: Bool = true) throws {
        self.redis = redis
        self.kinds = kinds
        self.hasDevices = hasDevices
        self.key = try StoreTests.key("1")
        self.registration = try StoreTests.registration("device", "1")
        self.device = try StoreTests.record("0badc0de")
    }

    // MARK: steps

    /// Returns the steps that may follow.
    func steps(in world: World) -> [Step] {
        var steps: [Step] = self.hasDevices ? [.sweep, world.hasDevice ? .unregister : .register] : [.sweep]
        if !world.log.isEmpty { steps += [.restore, .lose] }
        for (hand, held) in world.hands.enumerated() {
            switch held {
            case .nothing: steps.append(.read(hand))
            case .read(let entry):
                let kinds = self.kinds.filter { Self.allows($0, entry.order, by: hand) }
                steps += kinds.map { .write(hand, $0) }
                if entry.order?.isCold == false, !world.log.isEmpty {
                    steps += kinds.filter { $0 != .again }.map { .sweepBeside(hand, $0) }
                }
                steps.append(.end(hand))
            case .written: steps += [.publish(hand), .end(hand)]
            case .published: steps += [.note(hand), .end(hand)]
            }
        }
        return steps
    }

    private static func allows(_ kind: Step.Kind, _ order: OrderStore.StoredOrder?, by hand: Int) -> Bool {
        let isNew = order.map { $0.state.isRemoved } ?? true
        let hasVersion = (order?.state.version ?? 0) < Self.versions
        let hasChange = (order.map { Self.position($0.state, of: hand) } ?? 0) < Self.changes
        switch kind {
        case .packaged, .unpackaged: return hasVersion
        case .removal: return hasVersion && !isNew
        case .renewed: return hasVersion && order?.isPackaged == true
        case .unrecorded: return !isNew && order?.isPublished == true
        case .signature: return order?.isPackaged == true
        case .requested: return !isNew && order?.isPackaged == false
        case .positions: return order != nil && hasChange
        case .announced: return !isNew && hasChange
        case .waiting: return isNew
        case .again: return order.map { !$0.isPublished || !$0.unpublished.isEmpty } ?? false
        }
    }

    static func position(_ state: OrderState, of hand: Int) -> Int64 {
        state.positions.position(inPartition: Int32(hand))?.offset ?? 0
    }

    /// The outcome of a step.
    struct Outcome {
        var world: World
        /// The order that a write was made of, if Redis took it.
        var written: OrderStore.StoredOrder??
    }

    /// Takes a step from the world that Redis has.
    func take(_ step: Step, from world: World) async throws -> Outcome {
        var next = world
        var written: OrderStore.StoredOrder??
        switch step {
        case .read(let hand):
            let entry = try await self.store(world).entries([self.key])[0].get()
            next.hands[hand] = .read(entry)
        case .write(let hand, let kind), .sweepBeside(let hand, let kind):
            guard case .read(let entry) = world.hands[hand] else { break }
            let write: @Sendable () async throws -> (isTaken: Bool, Hand) = {
                try await self.write(kind, entry, by: hand, world)
            }
            let (isTaken, held): (Bool, Hand)
            if case .sweepBeside = step {
                guard let taken = try await self.sweep(world, beside: write) else { break }
                (isTaken, held) = taken
            } else {
                (isTaken, held) = try await write()
            }
            next.hands[hand] = held
            guard isTaken else { break }
            written = .some(entry.order)
            if case .written(let state, _, _, _) = held, kind == .announced { next.request = state }
            if kind == .removal { next.request = nil }
        case .publish(let hand):
            guard case .written(let state, let mark, let isSilent, let isRequested) = world.hands[hand] else { break }
            let offset = world.log.count
            let record = state.isRemoved ? nil : Self.place(state, offset)
            let publication = OrderStore.Publication(
                state, record: record, isAnnounced: !isSilent, isRequested: isRequested)
            next.hands[hand] = .published(publication, state, mark: mark, offset: offset)
            next.log.append(state)
            if !isSilent { next.announced.insert(offset) }
        case .note(let hand):
            guard case .published(let publication, _, let mark, _) = world.hands[hand] else { break }
            _ = try await self.store(world).acknowledge([(mark, publication)])
            next.hands[hand] = .nothing
        case .end(let hand): next.hands[hand] = .nothing
        case .sweep: try await self.sweep(world) {}
        case .restore: try await self.restore(world)
        case .lose:
            try await self.put(World())
            try await self.restore(world)
            (next.hasDevice, next.request) = (false, nil)
        case .register:
            _ = try await Registrations(redis: self.redis).register(self.registration, self.device)
            next.hasDevice = true
        case .unregister:
            try await Registrations(redis: self.redis).unregister(self.registration)
            next.hasDevice = false
        }
        if step.isOfRedis { try await self.look(&next) }
        return Outcome(world: next, written: written)
    }

    private func store(_ world: World) -> OrderStore {
        OrderStore(redis: self.redis) { orders in orders.map { .success(Self.record($0.record, in: world)) } }
    }

    private func write(
        _ kind: Step.Kind, _ entry: OrderStore.Entry, by hand: Int, _ world: World
    ) async throws -> (isTaken: Bool, Hand) {
        let order = entry.order
        var state = try order?.state ?? StoreTests.state("1", version: 0)
        if kind == .again {
            let (mark, isRequested) = (order?.unpublished ?? "", order?.isToAnnounce ?? false)
            return (false, .written(state, mark: mark, isSilent: false, isRequested: isRequested))
        }
        let changed: Set<Step.Kind> = [.packaged, .unpackaged, .positions, .announced, .removal]
        if changed.contains(kind) {
            let offset = Self.position(state, of: hand) + 1
            state.positions.advance(to: .init(partition: Int32(hand), offset: offset, timestampMilliseconds: 1))
        }
        if [.packaged, .unpackaged, .renewed, .removal].contains(kind) {
            state.version += 1
            state.modifiedEpochSeconds += 1
        }
        if [.packaged, .unpackaged].contains(kind) {
            state.isRemoved = false
            state.document = OrderDocument(members: [
                "orderNumber": .string("\(state.version)"), "status": "completed",
            ])
        }
        if kind == .removal { (state.isRemoved, state.document) = (true, .empty) }
        let package = Self.package(state)
        let content: OrderStore.Write.Content =
            switch kind {
            case .packaged: .version(package)
            case .unpackaged, .again: .version(nil)
            case .renewed: .unpublishedVersion(package)
            case .signature: .signature(package)
            case .requested: .requested(package, epochSeconds: 1)
            case .unrecorded: .unrecorded
            case .positions: .positions
            case .announced: .positionsToPublish
            case .removal: .removal
            case .waiting: .waiting([UInt8(ascii: "w")])
            }
        let write =
            kind == .waiting
            ? OrderStore.Write(
                waiting: [UInt8(ascii: "w")], for: self.key, removed: order?.state, expectedRevision: entry.revision)
            : OrderStore.Write(state: state, after: order, revision: entry.revision, content: content)
        guard try await self.store(world).write([write]) == [.written] else { return (false, .nothing) }
        if [.signature, .requested, .positions, .waiting].contains(kind) { return (true, .nothing) }
        let mark = kind == .renewed ? String(state.version) : ""
        let isRequested = kind == .announced || order?.isToAnnounce == true
        return (true, .written(state, mark: mark, isSilent: kind == .unrecorded, isRequested: isRequested))
    }

    /// - Parameter beside: what happens while the topic is read.
    /// - Returns: the result of that; nil if the topic is not read.
    private func sweep<Value: Sendable>(
        _ world: World, beside: @escaping @Sendable () async throws -> Value
    ) async throws -> Value? {
        let moment = RedisArgument.integer(.max >> 11)
        let judged = try await self.redis.evaluate([
            RedisInvocation(StoreScripts.judge, keys: [StoreKeys.order(self.key)], arguments: [moment, moment])
        ])
        guard judged[0].array != nil else { return nil }
        let result = Mutex<Result<Value, any Error>?>(nil)
        let store = OrderStore(redis: self.redis) { orders in
            do {
                let value = try await beside()
                result.withLock { $0 = .success(value) }
            } catch {
                result.withLock { $0 = .failure(error) }
            }
            return orders.map { .success(Self.record($0.record, in: world)) }
        }
        _ = try await store.cool([self.key])
        return try result.withLock { $0 }?.get()
    }

    private static func record(_ place: PublishedRecord, in world: World) -> OrderRecord? {
        guard let offset = Int(exactly: place.offset), world.log.indices.contains(offset) else { return nil }
        return OrderRecord(world.log[offset], content: Self.content(world.log[offset]))
    }

    private func restore(_ world: World) async throws {
        guard let last = world.log.last else { return }
        let item: OrderStore.Restored =
            last.isRemoved
            ? .removed(last)
            : .version(last, content: Self.content(last), Self.place(last, world.log.count - 1), isCold: false)
        _ = try await self.store(world).restore([item])
    }

    /// The number that the document of a state names: a package and a digest name the same one.
    static func label(_ state: OrderState) -> String { state.document.members["orderNumber"]?.string ?? "" }

    private static func content(_ state: OrderState) -> String {
        String(repeating: "0", count: 31) + self.label(state)
    }

    private static func package(_ state: OrderState) -> OrderStore.StoredPackage {
        OrderStore.StoredPackage(
            assets: ["a\(self.label(state))"], head: Array(self.label(state).utf8), certificates: "c", tail: [0],
            entityTag: "e\(self.label(state))", signer: "s", content: self.content(state))
    }

    private static func place(_ state: OrderState, _ offset: Int) -> PublishedRecord? {
        PublishedRecord(
            cluster: "c", partition: 0, offset: Int64(offset), bytes: 100, isEnded: state.document.isEnded)
    }

    // MARK: Redis

    /// Makes Redis have what a world has.
    func put(_ world: World) async throws {
        let order = StoreKeys.order(self.key)
        let tag = DeviceTag(self.registration.device, self.key.orderType)
        let commands = [
            order, StoreKeys.gone(self.key), StoreKeys.devices(self.key), StoreKeys.stamps(self.key),
            StoreKeys.listed(tag), StoreKeys.stamps(tag),
        ].map { RedisCommand("DEL", .string($0)) }
        _ = try await self.redis.pipeline(commands)
        // A removed order takes no registration, and may have one until its removal has ended that.
        if world.hasDevice {
            _ = try await Registrations(redis: self.redis).register(self.registration, self.device)
        }
        var others: [RedisCommand] = []
        if !world.fields.isEmpty {
            let pairs = world.fields.flatMap { [RedisArgument.string($0), .bytes($1)] }
            others.append(RedisCommand(["HSET", .string(order)] + pairs))
        }
        if world.isGone { others.append(RedisCommand("SET", .string(StoreKeys.gone(self.key)), "")) }
        if !others.isEmpty { _ = try await self.redis.pipeline(others) }
    }

    /// Reads what Redis has into a world.
    private func look(_ world: inout World) async throws {
        let replies = try await self.redis.pipeline([
            RedisCommand("HGETALL", .string(StoreKeys.order(self.key))),
            RedisCommand("EXISTS", .string(StoreKeys.gone(self.key))),
            RedisCommand("HLEN", .string(StoreKeys.devices(self.key))),
        ])
        let values = replies[0].array ?? []
        world.fields = [:]
        for index in stride(from: 0, to: values.count - 1, by: 2) {
            world.fields[values[index].text ?? ""] = values[index + 1].bytes ?? []
        }
        world.isGone = replies[1] == .integer(1)
        world.hasDevice = replies[2] == .integer(1)
    }

    /// Reads the order as the next worker would.
    func order(in world: World) async throws -> Result<OrderStore.StoredOrder?, StoreError> {
        try await self.store(world).orders([self.key])[0]
    }
}

extension OrderModel.World {
    func text(_ field: OrderField) -> String? {
        self.fields[field.rawValue].map { String(decoding: $0, as: UTF8.self) }
    }

    /// True if there is a record from which devices are told of a state.
    func isAnnounced(_ state: OrderState) -> Bool {
        self.announced.contains { offset in
            let record = self.log[offset]
            return record.version >= state.version
                && (0..<OrderModel.packagers).allSatisfy {
                    OrderModel.position(record, of: $0) >= OrderModel.position(state, of: $0)
                }
        }
    }

    func hasSameRedis(as other: Self) -> Bool {
        self.fields == other.fields && self.isGone == other.isGone && self.hasDevice == other.hasDevice
    }

    /// A text that two worlds share if, and only if, they differ in nothing but moments: revisions are numbered in
    /// their order, and a place is named by its record.
    var canonical: String {
        var revisions = Set(self.hands.compactMap { $0.revision })
        if let own = self.text(.revision).flatMap({ Int64($0) }) { revisions.insert(own) }
        let order = revisions.sorted()
        func number(_ revision: Int64?) -> String {
            revision.flatMap { order.firstIndex(of: $0) }.map(String.init) ?? "-"
        }
        var parts: [String] = []
        for (name, value) in self.fields.sorted(by: { $0.key < $1.key }) where name != "stamp" {
            let text = String(decoding: value, as: UTF8.self)
            switch name {
            case OrderField.revision.rawValue: parts.append("revision=\(number(Int64(text)))")
            case OrderField.record.rawValue:
                let offset = PublishedRecord(text).map { Int($0.offset) }
                parts.append("record=\(offset.map { self.name(of: $0) } ?? text)")
            default: parts.append("\(name)=\(text)")
            }
        }
        parts.append(
            "\(self.isGone) \(self.hasDevice) last=\(self.log.isEmpty ? "" : self.name(of: self.log.count - 1))")
        for hand in self.hands {
            switch hand {
            case .nothing: parts.append("-")
            case .read(let entry):
                parts.append("read \(number(entry.revision)) \(entry.order.map(Self.name) ?? "none")")
            case .written(let state, let mark, let isSilent, let isRequested):
                parts.append("written \(Self.name(state)) \(mark) \(isSilent) \(isRequested)")
            case .published(let publication, let state, let mark, let offset):
                let facts = "\(publication.isAnnounced) \(publication.isRequested)"
                parts.append("published \(Self.name(state)) \(mark) \(facts) \(self.name(of: offset))")
            }
        }
        return parts.joined(separator: "\n")
    }

    /// Names a record by its content, and whether it is the last one.
    private func name(of offset: Int) -> String {
        guard self.log.indices.contains(offset) else { return "lost" }
        return Self.name(self.log[offset]) + (offset == self.log.count - 1 ? " last" : "")
    }

    private static func name(_ order: OrderStore.StoredOrder) -> String {
        "\(Self.name(order.state)) \(order.entityTag) \(order.content) \(order.unpublished) \(order.isPublished) "
            + "\(order.isCold)"
    }

    static func name(_ state: OrderState) -> String {
        "\(state.version):\(state.isRemoved ? "removed" : OrderModel.label(state)):"
            + (0..<OrderModel.packagers).map { "\(OrderModel.position(state, of: $0))" }.joined(separator: ",")
    }
}

extension OrderModel.Hand {
    fileprivate var revision: Int64? {
        if case .read(let entry) = self { entry.revision } else { nil }
    }
}
