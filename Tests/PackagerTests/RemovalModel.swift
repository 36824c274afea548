import Kafka
import Model
import NIOCore
import Redis
import TestKit

@testable import Packager
@testable import Store

/// One order with a device and a parcel, in Redis and on the topics, and all that works on it while it is removed: the
/// steps that each may take next.
///
/// The scripts of Redis are the real ones, and the real code decides what a topic is asked for. The topics are those
/// of the world; of a compacted one the last record counts. Each may end between any two of its steps.
struct RemovalModel: ExploredModel {
    /// The things that the order may get.
    enum Thing: Hashable, CaseIterable { case registration, parcel, notification }

    /// A wrong way to work, to see that it is found.
    enum Fault: Hashable {
        /// A removal ends what Redis lists, and asks no topic.
        case topicsAreNotRead
        /// A restore notes the parcels of a version that it does not write.
        case parcelsAreNotedFirst
    }

    /// A value of Redis, and whether it ends by itself.
    struct Entry: Hashable, Sendable {
        enum Value: Hashable, Sendable {
            case text([UInt8])
            case hash([String: [UInt8]])
            case set(Set<String>)
        }

        var value: Value
        var ends: Bool
    }

    /// The work of the packager on the next change.
    enum Packager: Hashable, Sendable {
        case none, written, removed, published
        case ended(Int)
    }

    /// The way of a registration; the number is the offset of its record, or of its end.
    enum Gateway: Hashable, Sendable {
        case none, begun
        case published(Int)
        case listed(Int)
        case refused
        case ended(Int)
        case done

        var isInFlight: Bool { self != .none && self != .done }
    }

    enum Pusher: Hashable, Sendable { case none, found, done }
    enum View: Hashable, Sendable { case complete, empty, ordered }
    enum Letter: Hashable, Sendable { case none, open, closed }
    enum Change: Hashable, Sendable { case version, removal }

    /// A run of `forget` or `expire`.
    enum Removal: Hashable, Sendable {
        case none
        case waiting
        case asking(isForget: Bool)
        /// The last record of the registration, or of its end, if the topic has one.
        case ending(isForget: Bool, Int?, isEnd: Bool)
        case buried(isForget: Bool, Int)
        case ended(isForget: Bool)

        /// True if a record that follows now is not found any more.
        var isPastReading: Bool {
            switch self {
            case .none, .waiting, .asking: false
            case .ending, .buried, .ended: true
            }
        }
    }

    struct World: Hashable, Sendable {
        var redis: [String: Entry] = [:]
        var view = View.complete
        var changes = [Change.version]
        var processed = 0
        /// The versions and tombstones of `waybill.orders`.
        var orders: [OrderState] = []
        /// The records of `waybill.registrations` and `waybill.push-pending`: true for a value.
        var registrations: [Bool] = []
        var pending: [Bool] = []
        var letter = Letter.none
        var packager = Packager.none
        var gateway = Gateway.none
        var pusher = Pusher.none
        var removal = Removal.none
        /// True if Redis was lost while the packager had something in hand.
        var isOvertaken = false
        var isForgotten = false
        /// True if `forget` or `expire` has come to its end.
        var isEnded = false
        /// True if something was published after the topics were read, and its writer ended: the next removal finds it.
        var isLate = false
        var runs = 0
        var ends = 0
        var losses = 0
    }

    enum Step: Hashable, Sendable, CustomStringConvertible {
        case write, writeAndEnd, publish, publishAndEnd, endRegistrations
        case begin, record, list, register, bury, unregister
        case find, park
        case refuse
        case forget, expire, wait, ask, buryFound, endFound, finish
        case lose, restoreLast, restoreAll, restoreForgotten, restoreRegistrations
        case endPackager, endGateway, endPusher, endRemoval

        var description: String { Self.names[self] ?? "" }

        private static let names: [Step: String] = [
            .write: "packager writes", .writeAndEnd: "packager writes and ends", .publish: "packager publishes",
            .publishAndEnd: "packager publishes and ends", .endRegistrations: "packager ends registrations",
            .begin: "device registers", .record: "gateway publishes", .list: "gateway writes the device's side",
            .register: "gateway writes the order's side", .bury: "gateway publishes the end",
            .unregister: "gateway ends it in Redis", .find: "pusher looks up", .park: "pusher parks",
            .refuse: "dead letter", .forget: "forget", .expire: "expire", .wait: "removal awaited",
            .ask: "topic read", .buryFound: "tombstone for what the topic has", .endFound: "and its end in Redis",
            .finish: "notifications, parcels and letters end", .lose: "loss of Redis",
            .restoreLast: "restore of the last record", .restoreAll: "restore of all records",
            .restoreForgotten: "restore without old tombstones", .restoreRegistrations: "restore of registrations",
            .endPackager: "packager ends", .endGateway: "gateway ends", .endPusher: "pusher ends",
            .endRemoval: "command ends",
        ]
    }

    /// The most runs of commands, ends of workers in the middle, and losses of Redis.
    struct Limits: Hashable, Sendable {
        var runs = 2
        var ends = 1
        var losses = 1
    }

    let redis: RedisClient
    let things: Set<Thing>
    let limits: Limits
    let fault: Fault?
    private let key: OrderKey
    private let registration: RegistrationKey
    private let record: RegistrationRecord
    private let parcel: Parcel
    private let version: OrderState
    private let removed: OrderState
    private let orderKey: String
    private let names: (gone: String, devices: String, owner: String, order: String, ended: [String])
    /// The keys that the model's scripts write, with the commands that read them.
    private let keys: [(name: String, read: RedisArgument, kind: Kind)]

    private enum Kind { case hash, set, text }

    init(redis: RedisClient, things: Set<Thing>, limits: Limits, fault: Fault? = nil) throws {
        self.redis = redis
        self.things = things
        self.limits = limits
        self.fault = fault
        self.key = try ChangeLog.key("o1")
        self.registration = RegistrationKey(device: try DeviceIdentifier("d"), order: self.key)
        self.record = RegistrationRecord(pushToken: try PushToken("ab12"), registeredEpochMilliseconds: Self.moment)
        var document = OrderDocument(members: ["orderNumber": "1"])
        if things.contains(.parcel) {
            document.members["fulfillments"] = [
                ["fulfillmentIdentifier": "f1", "carrier": "UPS", "trackingNumber": "1Z1"]
            ]
        }
        let token = try AuthenticationToken("0123456789abcdef")
        self.version = OrderState(
            key: self.key, document: document, token: token, version: 1, modifiedEpochSeconds: ChangeLog.noon,
            isRemoved: false)
        self.removed = OrderState(
            key: self.key, document: .empty, token: token, version: 2, modifiedEpochSeconds: ChangeLog.noon + 1,
            isRemoved: true)
        guard let parcel = Parcel(carrier: "UPS", number: "1Z1") else { throw StoreError(.corrupt, "no parcel") }
        self.parcel = parcel
        self.orderKey = StoreKeys.order(self.key)
        let tag = DeviceTag(self.registration.device, self.key.orderType)
        let parcelKeys = StoreKeys.parcel(parcel)
        self.names = (
            StoreKeys.gone(self.key), StoreKeys.devices(self.key), parcelKeys.owner, parcelKeys.order,
            [StoreKeys.ended(self.key), StoreKeys.ended(tag)]
        )
        let hashes = [self.orderKey, self.names.devices, StoreKeys.stamps(self.key), StoreKeys.stamps(tag)]
        var keys: [(name: String, read: RedisArgument, kind: Kind)] = [(StoreKeys.listed(tag), "SMEMBERS", .set)]
        for name in hashes + self.names.ended { keys.append((name, "HGETALL", .hash)) }
        for name in [self.names.gone, self.names.owner, self.names.order] { keys.append((name, "GET", .text)) }
        self.keys = keys
    }

    private static let moment = ChangeLog.noon * 1000
    private static func stamp(_ offset: Int) -> RegistrationStamp {
        RegistrationStamp(offset: Int64(offset), epochMilliseconds: Self.moment)
    }

    var start: World { World() }
    private var store: OrderStore { OrderStore(redis: self.redis) }
    private var devices: Registrations { Registrations(redis: self.redis) }

    func steps(in world: World) -> [Step] {
        var steps: [Step] = []
        let (isComplete, isLive) = (world.view == .complete, self.isLive(world))
        let mayEnd = world.ends < self.limits.ends
        func add(_ step: Step, if condition: Bool = true) { if condition { steps.append(step) } }
        switch world.packager {
        case .none:
            let isOpen = isComplete && world.processed < world.changes.count
            add(.write, if: isOpen)
            add(.writeAndEnd, if: isOpen && mayEnd)
        case .written, .removed:
            add(.publish)
            add(.publishAndEnd, if: mayEnd)
        case .published, .ended: add(.endRegistrations)
        }
        add(.endPackager, if: world.packager != .none && mayEnd)
        switch world.gateway {
        case .none: add(.begin, if: isComplete && isLive && self.things.contains(.registration))
        case .begun: add(.record)
        case .published: add(.list)
        case .listed: add(.register)
        case .refused: add(.bury)
        case .ended: add(.unregister)
        case .done: break
        }
        add(.endGateway, if: world.gateway.isInFlight && mayEnd)
        if self.things.contains(.notification) {
            add(.find, if: world.pusher == .none && isComplete && isLive)
            add(.park, if: world.pusher == .found)
            add(.endPusher, if: world.pusher == .found && mayEnd)
            add(.refuse, if: world.letter == .none && isComplete && isLive)
        }
        switch world.removal {
        case .none:
            add(.forget, if: isComplete && world.runs < self.limits.runs)
            add(.expire, if: isComplete && world.runs < self.limits.runs && world.redis[self.orderKey] != nil)
        case .waiting: add(.wait, if: isComplete && self.isRemovalDone(world))
        case .asking: add(.ask)
        case .ending: add(.buryFound)
        case .buried: add(.endFound)
        case .ended: add(.finish)
        }
        add(.endRemoval, if: world.removal != .none && mayEnd)
        switch world.view {
        case .complete: add(.lose, if: world.losses < self.limits.losses)
        case .empty:
            let isRemoved = world.orders.last?.isRemoved == true
            add(.restoreLast)
            add(.restoreAll, if: isRemoved && world.orders.contains { !$0.isRemoved })
            // A day after the removal nothing of before is on its way.
            add(.restoreForgotten, if: isRemoved && !world.gateway.isInFlight && world.pusher != .found)
        case .ordered: add(.restoreRegistrations)
        }
        return steps
    }

    private func fields(_ world: World) -> [String: [UInt8]]? {
        guard case .hash(let fields)? = world.redis[self.orderKey]?.value else { return nil }
        return fields
    }

    private func isLive(_ world: World) -> Bool { self.fields(world).map { $0["removed"] == nil } ?? false }

    /// The condition that `forget` waits for.
    private func isRemovalDone(_ world: World) -> Bool {
        !self.isLive(world) && world.processed == world.changes.count && world.redis[self.names.devices] == nil
    }

    func take(_ step: Step, from world: World, _ sight: Void) async throws -> (world: World, broken: String?) {
        var next = world
        try await self.take(step, &next)
        try await self.look(&next)
        guard self.isQuiet(next) else { return (next, nil) }
        if next.isEnded, !next.isLate, let left = self.left(next).first { return (next, "\(left) is left") }
        guard next.orders.contains(where: \.isRemoved) else { return (next, nil) }
        // The next removal, whatever came before.
        let left = self.left(try await self.forgetAgain(next)).first
        try await self.put(next)
        return (next, left.map { "\($0) is left by the next removal" })
    }

    private func take(_ step: Step, _ next: inout World) async throws {
        switch step {
        case .write, .writeAndEnd, .publish, .publishAndEnd, .endRegistrations, .endPackager:
            try await self.package(step, &next)
        case .begin, .record, .list, .register, .bury, .unregister, .endGateway: try await self.register(step, &next)
        case .find: next.pusher = .found
        case .park:
            next.pending.append(true)
            next.isLate = next.isLate || next.isEnded
            next.pusher = .done
        case .endPusher: (next.pusher, next.ends) = (.done, next.ends + 1)
        case .refuse: next.letter = .open
        case .forget, .expire, .wait, .ask, .buryFound, .endFound, .finish, .endRemoval:
            try await self.remove(step, &next)
        case .lose, .restoreLast, .restoreAll, .restoreForgotten, .restoreRegistrations:
            try await self.restore(step, &next)
        }
    }

    private func package(_ step: Step, _ next: inout World) async throws {
        switch step {
        case .write, .writeAndEnd:
            let before = next
            next.packager = try await self.writeNext(next)
            guard step == .writeAndEnd else { break }
            // It ends before the parcels are noted, or forgotten.
            try await self.look(&next)
            for name in [self.names.owner, self.names.order] { next.redis[name] = before.redis[name] }
            try await self.put(next)
            self.end(&next)
        case .publish, .publishAndEnd:
            let isRemoval = next.packager == .removed
            if isRemoval {
                if next.redis[self.orderKey] != nil { next.orders.append(self.removed) }
                next.packager = .published
            } else {
                _ = try await self.store.parcels.note([self.version])
                next.orders.append(self.version)
                if step == .publish { self.commit(&next) }
            }
            if step == .publishAndEnd { self.end(&next) }
        case .endRegistrations:
            if case .ended(let offset) = next.packager {
                try await self.unregister(at: offset)
                self.commit(&next)
            } else if try await self.devices.pages(of: [(self.key, nil)])[0].devices.isEmpty {
                self.commit(&next)
            } else {
                next.registrations.append(false)
                next.packager = .ended(next.registrations.count - 1)
            }
        default: self.end(&next)
        }
    }

    private func writeNext(_ world: World) async throws -> Packager {
        let stored = try await self.store.orders([self.key])[0].get()
        guard world.changes[world.processed] == .removal else {
            guard stored == nil else { return .written }
            _ = try await self.store.write([OrderStore.Write(state: self.version, content: .version(nil))])
            return .written
        }
        if let stored, !stored.state.isRemoved {
            _ = try await self.store.write([OrderStore.Write(state: self.removed, after: stored, content: .removal)])
        }
        return .removed
    }

    private func commit(_ next: inout World) {
        if !next.isOvertaken { next.processed += 1 }
        (next.packager, next.isOvertaken) = (.none, false)
    }

    private func end(_ next: inout World) {
        (next.packager, next.isOvertaken, next.ends) = (.none, false, next.ends + 1)
    }

    private func register(_ step: Step, _ next: inout World) async throws {
        switch (step, next.gateway) {
        case (.begin, _): next.gateway = .begun
        case (.record, _):
            next.registrations.append(true)
            next.gateway = .published(next.registrations.count - 1)
        case (.list, .published(let offset)):
            let side = Registrations.deviceSide(
                StoreScripts.registerOrder, self.registration, Self.stamp(offset))
            _ = try await self.redis.evaluate([side])
            next.gateway = .listed(offset)
        case (.register, .listed(let offset)):
            // A view that is being restored does not know that the order is removed.
            let isUnknown = next.view != .complete && next.redis[self.orderKey] == nil
            next.isLate = next.isLate || isUnknown && next.changes.contains(.removal)
            let side = Registrations.orderSide(registering: self.record, self.registration, Self.stamp(offset))
            let reply = try await self.redis.evaluate([side])[0]
            next.gateway = reply.integer == Registrations.Outcome.removed.rawValue ? .refused : .done
        case (.bury, _):
            next.registrations.append(false)
            next.gateway = .ended(next.registrations.count - 1)
        case (.unregister, .ended(let offset)):
            try await self.devices.unregister(self.registration, at: Self.stamp(offset))
            next.gateway = .done
        default:
            next.isLate = next.isLate || next.gateway != .begun && (next.removal.isPastReading || next.isEnded)
            (next.gateway, next.ends) = (.done, next.ends + 1)
        }
    }

    private func remove(_ step: Step, _ next: inout World) async throws {
        switch (step, next.removal) {
        case (.forget, _):
            next.runs += 1
            next.changes.append(.removal)
            next.removal = .waiting
        case (.expire, _):
            next.runs += 1
            if self.isLive(next) { next.changes.append(.removal) } else { next.removal = .asking(isForget: false) }
        case (.wait, _): next.removal = .asking(isForget: true)
        case (.ask, .asking(let isForget)):
            let found = self.fault == .topicsAreNotRead ? nil : self.found(next)
            next.removal = .ending(
                isForget: isForget, found.map { Int($0.offset) }, isEnd: found.map { $0.value == nil } ?? false)
        case (.buryFound, .ending(let isForget, let offset, let isEnd)):
            let stored = try await self.store.storedVersions([self.key])[0]
            if let offset, stored?.isRemoved ?? true {
                if !isEnd { next.registrations.append(false) }
                next.removal = .buried(isForget: isForget, isEnd ? offset : next.registrations.count - 1)
            } else {
                next.removal = .ended(isForget: isForget)
            }
        case (.endFound, .buried(let isForget, let offset)):
            try await self.unregister(at: offset)
            next.removal = .ended(isForget: isForget)
        case (.finish, .ended(let isForget)):
            if next.pending.last == true { next.pending.append(false) }
            _ = try await self.store.parcels.forget(ofRemoved: [self.key])
            if isForget, next.letter == .open { next.letter = .closed }
            next.isForgotten = next.isForgotten || isForget
            (next.removal, next.isEnded) = (.none, true)
        default: (next.removal, next.ends) = (.none, next.ends + 1)
        }
    }

    /// Asks the topic as a command does.
    private func found(_ world: World) -> KeyedRecords.Record? {
        var found = KeyedRecords(of: [self.key]) { (try? RegistrationKey($0))?.order }
        for (offset, hasValue) in world.registrations.enumerated() {
            found.add(
                KafkaRecord(
                    topic: "r", partition: 0, offset: Int64(offset), timestampMilliseconds: Self.moment,
                    key: Array(self.registration.text.utf8), value: hasValue ? self.record.encoded : nil))
        }
        return found.records.first
    }

    private func unregister(at offset: Int) async throws {
        try await self.devices.restore([.init(key: self.registration, registration: nil, stamp: Self.stamp(offset))])
    }

    private func restore(_ step: Step, _ next: inout World) async throws {
        switch step {
        case .lose:
            next.losses += 1
            next.redis = [:]
            next.view = .empty
            next.isOvertaken = next.packager != .none
            try await self.put(next)
        case .restoreRegistrations:
            if let last = next.registrations.last {
                try await self.devices.restore([
                    .init(
                        key: self.registration, registration: last ? self.record : nil,
                        stamp: Self.stamp(next.registrations.count - 1))
                ])
            }
            next.view = .complete
        default:
            // The newest first, each in a range of its own.
            let last = next.orders.last.map { [$0] } ?? []
            let records = step == .restoreAll ? Array(next.orders.reversed()) : step == .restoreLast ? last : []
            for state in records {
                _ = try await self.store.restore([state.isRemoved ? .removed(state) : .version(state, content: nil)])
                if self.fault == .parcelsAreNotedFirst, !state.isRemoved {
                    let keys = StoreKeys.parcel(self.parcel)
                    let entry = "\(state.modifiedEpochSeconds) \(state.version) \(self.key) f1"
                    _ = try await self.redis.send(RedisCommand("SET", .string(keys.owner), .string(entry)))
                }
            }
            // It exists again until its removal is taken once more.
            if next.orders.last?.isRemoved == false { next.isEnded = false }
            next.view = .ordered
        }
    }

    // MARK: rules

    /// True if nothing is in work.
    private func isQuiet(_ world: World) -> Bool {
        world.packager == .none && !world.gateway.isInFlight && world.pusher != .found && world.removal == .none
            && world.view == .complete && world.processed == world.changes.count
    }

    /// Returns what a removed order has beside what `privacy.md` lists.
    private func left(_ world: World) -> [String] {
        var left: [String] = []
        for (name, entry) in world.redis.sorted(by: { $0.key < $1.key }) {
            let isTrace = name == self.orderKey && !self.isLive(world) || name == self.names.gone
            if !entry.ends || !isTrace && !self.names.ended.contains(name) { left.append(name) }
        }
        if world.registrations.last == true { left.append("a registration in Kafka") }
        if world.pending.last == true { left.append("a waiting notification") }
        if world.isForgotten, world.letter == .open { left.append("a dead letter") }
        if world.orders.last?.isRemoved == false { left.append("a version in Kafka") }
        return left
    }

    /// Returns the world after a whole run of `forget`.
    private func forgetAgain(_ world: World) async throws -> World {
        var next = world
        for step in [Step.forget, .write, .publish] { try await self.takeWhole(step, &next) }
        while next.packager != .none { try await self.takeWhole(.endRegistrations, &next) }
        guard self.isRemovalDone(next) else { return next }
        for step in [Step.wait, .ask, .buryFound] { try await self.takeWhole(step, &next) }
        if case .buried = next.removal { try await self.takeWhole(.endFound, &next) }
        try await self.takeWhole(.finish, &next)
        return next
    }

    private func takeWhole(_ step: Step, _ next: inout World) async throws {
        try await self.take(step, &next)
        try await self.look(&next)
    }

    func look(at world: World) async throws {}
    func areInOneSystem(_ one: World, _ other: World) -> Bool { one.redis == other.redis }
    func put(_ world: World) async throws {
        var commands = [RedisCommand(["DEL"] + self.keys.map { RedisArgument.string($0.name) })]
        for (name, entry) in world.redis {
            switch entry.value {
            case .text(let bytes): commands.append(RedisCommand("SET", .string(name), .bytes(bytes)))
            case .hash(let fields):
                let pairs = fields.flatMap { [RedisArgument.string($0), .bytes($1)] }
                commands.append(RedisCommand(["HSET", .string(name)] + pairs))
            case .set(let members):
                commands.append(RedisCommand(["SADD", .string(name)] + members.map { RedisArgument.string($0) }))
            }
            if entry.ends { commands.append(RedisCommand("EXPIRE", .string(name), "100000")) }
        }
        for case .error(let message) in try await self.redis.pipeline(commands) {
            throw StoreError("putting a world", reply: message)
        }
    }

    private func look(_ world: inout World) async throws {
        let replies = try await self.redis.pipeline(
            self.keys.flatMap { [RedisCommand($0.read, .string($0.name)), RedisCommand("TTL", .string($0.name))] })
        world.redis = [:]
        for (index, key) in self.keys.enumerated() {
            let (reply, ends) = (replies[2 * index], (replies[2 * index + 1].integer ?? -2) >= 0)
            let value: Entry.Value
            switch key.kind {
            case .hash:
                let items = reply.array ?? []
                var fields: [String: [UInt8]] = [:]
                for at in stride(from: 0, to: items.count - 1, by: 2) {
                    fields[items[at].text ?? ""] = items[at + 1].bytes ?? []
                }
                if fields.isEmpty { continue }
                value = .hash(fields)
            case .set:
                guard let items = reply.array, !items.isEmpty else { continue }
                value = .set(Set(items.compactMap(\.text)))
            case .text:
                guard let bytes = reply.bytes else { continue }
                value = .text(bytes)
            }
            world.redis[key.name] = Entry(value: value, ends: ends)
        }
    }

    /// Moments differ, and nothing follows from them here.
    func name(of world: World) -> String {
        var other = world
        for (name, entry) in world.redis {
            guard case .hash(var fields) = entry.value else { continue }
            if name == self.orderKey {
                for moment in ["revision", "stamp"] { fields[moment] = nil }
            } else {
                fields = fields.mapValues { bytes in
                    let parts = String(decoding: bytes, as: UTF8.self).split(separator: ":")
                    return parts.count > 1 && bytes.first != UInt8(ascii: "{") ? Array(parts[0].utf8) : bytes
                }
            }
            other.redis[name] = Entry(value: .hash(fields), ends: entry.ends)
        }
        let redis = other.redis.sorted { $0.key < $1.key }.map { name, entry in
            switch entry.value {
            case .text(let bytes): "\(name) \(entry.ends) \(String(decoding: bytes, as: UTF8.self))"
            case .set(let members): "\(name) \(entry.ends) \(members.sorted())"
            case .hash(let fields):
                "\(name) \(entry.ends) "
                    + fields.sorted { $0.key < $1.key }.map { "\($0)=\(String(decoding: $1, as: UTF8.self))" }
                    .joined(separator: " ")
            }
        }
        let states = "\(world.packager) \(world.gateway) \(world.pusher) \(world.removal) \(world.view) \(world.letter)"
        let marks = [world.isOvertaken, world.isForgotten, world.isEnded, world.isLate]
        let orders = world.orders.map(\.version)
        let topics = "\(world.changes) \(world.processed) \(orders) \(world.registrations) \(world.pending)"
        let all = redis + [states, topics, "\(marks) \(world.runs) \(world.ends) \(world.losses)"]
        return all.joined(separator: "\n")
    }
}
