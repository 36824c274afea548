import Kafka
import Model

/// The facts of Redis about an order, as far as a removal ends them.
struct OrderTraces: Hashable, Sendable {
    /// The state of an order.
    enum State: Hashable, Sendable {
        case none
        case stored
        /// Removed; `isPublished` once its tombstone on the topic of orders is acknowledged.
        case removed(isPublished: Bool)
        /// Its data is damaged: a change cannot remove it.
        case damaged(String)
    }

    var state = State.none
    /// Devices that are registered for it.
    var devices = 0
    /// Changes that wait for it: see `IncompleteOrder`.
    var earlyChanges = 0

    /// The reason why it is not forgotten; nil if a removal has nothing left to do.
    var rest: String? {
        switch self.state {
        case .damaged(let reason): return reason
        case .stored: return "its state and package are still there"
        case .removed(isPublished: false): return "its tombstone is not known to be published"
        case .none, .removed: break
        }
        if self.devices > 0 { return "\(self.devices) devices are still registered for it" }
        return self.earlyChanges > 0 ? "\(self.earlyChanges) changes still wait for it" : nil
    }

    /// True if it has something that a removal ends.
    var isKnown: Bool { self.rest != nil && !self.isDamaged }

    var isDamaged: Bool { if case .damaged = self.state { true } else { false } }
}

/// The outcome of forgetting one order.
struct ForgottenOrder: Hashable, Sendable {
    enum Outcome: Hashable, Sendable {
        case removed
        /// Nothing was stored of it. Its removal was published all the same, for changes on their way.
        case unknown
        /// Something was not done, for this reason.
        case left(String)
        /// A dry run.
        case planned
    }

    let key: OrderKey
    /// The order as it was found before.
    let found: OrderTraces
    var outcome: Outcome
    /// Dead letters that were closed.
    var deadLetters = 0
    /// The records and entries that were left of it beside its removal.
    var ended = OrderRemains.Counts()

    /// True if something was not done.
    var isLeft: Bool { if case .left = self.outcome { true } else { false } }

    /// Adds what was left of it, and was ended.
    ///
    /// - Parameter isPlanned: true if it is still there.
    mutating func add(_ ended: OrderRemains.Counts?, isPlanned: Bool) {
        guard let ended else { return }
        self.ended = ended
        if self.outcome == .unknown { self.outcome = isPlanned ? .planned : .removed }
    }

    /// One line for a person.
    var line: String {
        var parts: [String] = []
        if self.found.state == .stored { parts.append("state and package") }
        if self.found.devices > 0 { parts.append("\(self.found.devices) devices") }
        if self.found.earlyChanges > 0 { parts.append("\(self.found.earlyChanges) early changes") }
        parts += self.ended.parts
        if self.deadLetters > 0 { parts.append("\(self.deadLetters) dead letters (closed)") }
        let nothing = self.found.state == .none ? "nothing was stored of it" : "it was removed before"
        let things = parts.isEmpty ? nothing : parts.joined(separator: ", ")
        switch self.outcome {
        case .removed: return "\(self.key): removed: \(things)"
        case .unknown: return "\(self.key): no such order: \(things)"
        case .left(let reason): return "\(self.key): NOT DONE: \(reason)"
        case .planned: return "\(self.key): would be removed: \(things)"
        }
    }

    var json: JSON {
        var members: [(String, JSON)] = [
            ("order", .string(self.key.description)), ("outcome", .string(self.word)),
            ("wasStored", .bool(self.found.state == .stored)), ("devices", .integer(Int64(self.found.devices))),
            ("earlyChanges", .integer(Int64(self.found.earlyChanges))),
            ("deadLetters", .integer(Int64(self.deadLetters))),
            ("registrations", .integer(Int64(self.ended.registrations))),
            ("notifications", .integer(Int64(self.ended.notifications))),
            ("parcels", .integer(Int64(self.ended.parcels))),
        ]
        if case .left(let reason) = self.outcome { members.append(("reason", .string(reason))) }
        return .object(JSONObject(members))
    }

    private var word: String {
        switch self.outcome {
        case .removed: "removed"
        case .unknown: "unknown"
        case .left: "left"
        case .planned: "planned"
        }
    }
}

/// The work that was done, and the places that keep bytes for a while.
struct ForgetReport: Sendable {
    let epochSeconds: Int64
    /// The person or program that did it.
    let by: String
    let orders: [ForgottenOrder]
    let remains: [Remainder]

    /// True if nothing is left to do.
    var isDone: Bool {
        !self.orders.contains(where: \.isLeft)
    }

    /// The report for a person.
    var text: String {
        (self.orders.map(\.line) + ["What is left, and until when at the latest:"] + self.remains.map(\.line))
            .joined(separator: "\n")
    }

    /// The report for programs, one object.
    var json: JSON {
        [
            "time": .string(RFC3339.format(epochSeconds: self.epochSeconds)), "by": .string(self.by),
            "isDone": .bool(self.isDone), "orders": .array(self.orders.map(\.json)),
            "remains": .array(self.remains.map(\.json)),
        ]
    }
}

/// The change that removes an order, for the first topic of changes.
enum OrderRemoval {
    /// - Parameters:
    ///   - id: the same for two removals of which one is enough.
    ///   - version: the version to be removed; nil removes any.
    ///   - epochSeconds: the time by which the removal is known to be later than an order that cannot be read.
    static func message(
        of key: OrderKey, id: String, version: Int64? = nil, at epochSeconds: Int64, _ topics: Topics
    ) -> KafkaMessage {
        var event: [(String, JSON)] = [
            ("specversion", "1.0"), ("type", .string(ChangeType.orderRemoved.rawValue)),
            ("source", "waybill-packager"), ("id", .string(id)), ("subject", .string(key.description)),
            ("time", .string(RFC3339.format(epochSeconds: epochSeconds))),
        ]
        if let version { event.append(("ifversion", .string(String(version)))) }
        return KafkaMessage(
            topic: topics.orderChanges, key: Array(key.description.utf8), value: JSONObject(event).serialized,
            headers: [KafkaHeader(name: "content-type", text: "application/cloudevents+json")])
    }
}
