import Kafka
import Model
import TestKit

/// A change as an upstream system sends it, and its meaning regardless of versions, batches and workers.
struct CrashChange: Sendable {
    enum Kind: Sendable {
        case replaced(number: String)
        case patched(number: String)
        case fulfillment(String, notes: String)
        case returned(String, number: String)
        case removed
        /// The order would not be valid with it.
        case invalid
        /// Not JSON.
        case broken
    }

    let order: String
    var source = "/oms"
    let id: String
    var sequence: Int?
    let kind: Kind

    /// - Returns: the order after this change, null for none; nil when the change cannot be applied.
    func apply(to order: JSON) -> JSON? {
        switch self.kind {
        case .replaced(let number): ChangeLog.document(number)
        case .removed: .null
        case .invalid, .broken: nil
        case .patched(let number): Self.merge(order, ["orderNumber": .string(number)])
        case .fulfillment(let name, let notes):
            Self.merge(order, in: "fulfillments", "fulfillmentIdentifier", name, Self.fulfillment(name, notes))
        case .returned(let name, let number):
            Self.merge(order, in: "returns", "returnIdentifier", name, Self.returned(name, number))
        }
    }

    /// Folds all changes of one order, in their order.
    ///
    /// - Returns: the order, null for none; the changes that cannot be applied; and those that may have dead letters,
    ///   because they arrived before their order, in its batch or in an earlier one.
    static func fold(_ changes: [CrashChange]) -> (order: JSON, refused: [CrashChange], early: [CrashChange]) {
        var (order, refused, applied, last) = (JSON.null, [CrashChange](), Set<String>(), [String: Int]())
        var (seen, waiting, early) = (false, [CrashChange](), [CrashChange]())
        func isSkipped(_ change: CrashChange) -> Bool {
            applied.contains(change.identity) || change.sequence ?? .max < last[change.source] ?? 0
        }
        func apply(_ change: CrashChange) -> Bool {
            if isSkipped(change) { return true }
            guard let next = change.apply(to: order) else { return false }
            (order, seen) = (next, seen || next != .null)
            // Removing an order that never existed leaves no trace.
            guard seen else { return true }
            applied.insert(change.identity)
            if let number = change.sequence { last[change.source] = number }
            return true
        }
        for change in changes {
            if order == .null, change.isUpdate {
                if isSkipped(change) { continue }
                let isCopy = waiting.contains { $0.identity == change.identity }
                if isCopy { early.append(change) } else { waiting.append(change) }
                continue
            }
            if case .removed = change.kind, order == .null, !isSkipped(change) {
                refused += waiting
                waiting = []
            }
            if !apply(change) { refused.append(change) }
            guard order != .null, !waiting.isEmpty else { continue }
            for other in waiting {
                // The new order supersedes the changes that its source sent before it.
                let isSuperseded = other.source == change.source && other.sequence ?? 0 <= change.sequence ?? .max
                if isSuperseded || apply(other) { early.append(other) } else { refused.append(other) }
            }
            waiting = []
        }
        return (order, refused + waiting, early)
    }

    private var identity: String { "\(self.source) \(self.id)" }

    private var isUpdate: Bool {
        switch self.kind {
        case .patched, .fulfillment, .returned, .invalid: true
        case .replaced, .removed, .broken: false
        }
    }

    private static func merge(_ order: JSON, _ patch: JSONObject) -> JSON? {
        order.object.map { .object($0.merging(patch)) }
    }

    private static func merge(
        _ order: JSON, in list: String, _ member: String, _ name: String, _ patch: JSONObject
    ) -> JSON? {
        guard var object = order.object else { return nil }
        var elements = object[list]?.array ?? []
        if let index = elements.firstIndex(where: { $0.object?[member]?.string == name }) {
            elements[index] = .object((elements[index].object ?? [:]).merging(patch))
        } else {
            elements.append(.object(patch))
        }
        object[list] = .array(elements)
        return .object(object)
    }

    private static func fulfillment(_ name: String, _ notes: String) -> JSONObject {
        [
            "fulfillmentIdentifier": .string(name), "fulfillmentType": "shipping", "status": "open",
            "notes": .string(notes),
        ]
    }

    private static func returned(_ name: String, _ number: String) -> JSONObject {
        ["returnIdentifier": .string(name), "status": "open", "returnNumber": .string(number)]
    }

    /// Returns the record as it is published.
    func message(topic: String) throws -> KafkaMessage {
        let key = try ChangeLog.key(self.order).description
        return KafkaMessage(
            topic: topic, key: Array(key.utf8), value: self.value(key), headers: [ChangeLog.contentType])
    }

    private func value(_ key: String) -> [UInt8] {
        let (type, data): (String, JSON?) =
            switch self.kind {
            case .replaced(let number): ("order.replaced", ChangeLog.document(number))
            case .patched(let number): ("order.patched", ["orderNumber": .string(number)])
            case .fulfillment(let name, let notes): ("fulfillment.updated", .object(Self.fulfillment(name, notes)))
            case .returned(let name, let number): ("return.updated", .object(Self.returned(name, number)))
            case .removed: ("order.removed", nil)
            case .invalid: ("order.patched", ["status": "nonsense"])
            case .broken: ("broken", nil)
            }
        if case .broken = self.kind { return Array("{\"id\": \"\(self.id)\", ".utf8) }
        var event: JSONObject = [
            "specversion": "1.0", "id": .string(self.id), "source": .string(self.source),
            "type": .string("waybill.\(type)"), "subject": .string(key),
        ]
        if let data { event["data"] = data }
        if let sequence { event["sequence"] = .string("\(sequence)") }
        return JSON.object(event).serialized
    }
}

/// Changes of some orders from several systems, with duplicates, late ones, and ones that cannot be applied.
struct CrashHistory {
    private var random: SeededGenerator
    private var count = 0
    /// The changes so far.
    private(set) var log: [CrashChange] = []

    /// The orders that are created and removed at random.
    static let orders = (0..<8).map { "o\($0)" }

    init(seed: UInt64) { self.random = SeededGenerator(seed: seed) }

    /// Returns the name of the order that a part of the history removes for good.
    static func gone(_ part: Int) -> String { "gone\(part)" }

    /// Adds some changes.
    ///
    /// - Parameter removing: an order that is created and removed with them.
    mutating func part(_ changes: Int = 50, removing gone: String? = nil) -> [CrashChange] {
        let start = self.log.count
        if let gone { self.add(gone, .replaced(number: "0")) }
        for _ in 0..<changes { self.next() }
        if let gone {
            self.add(gone, .fulfillment("f", notes: "last"))
            self.add(gone, .removed)
        }
        return Array(self.log[start...])
    }

    /// Adds one change of each order.
    mutating func each(_ kind: CrashChange.Kind, of orders: [String] = Self.orders) -> [CrashChange] {
        for order in orders { self.add(order, kind) }
        return Array(self.log.suffix(orders.count))
    }

    private mutating func add(
        _ order: String, _ kind: CrashChange.Kind, source: String = "/oms", sequence: Int? = nil
    ) {
        self.count += 1
        self.log.append(
            CrashChange(order: order, source: source, id: "\(self.count)", sequence: sequence, kind: kind))
    }

    private mutating func next() {
        // The array is not empty.
        let order = Self.orders.randomElement(using: &self.random)!
        let text = "\(Int.random(in: 0..<4, using: &self.random))"
        let name = "n\(Int.random(in: 0..<3, using: &self.random))"
        switch Int.random(in: 0..<20, using: &self.random) {
        case 0: self.add(order, .removed)
        case 1...5: self.add(order, .replaced(number: text))
        case 6...8: self.add(order, .patched(number: text))
        case 9...11: self.add(order, .fulfillment(name, notes: text))
        case 12, 13: self.add(order, .returned(name, number: text))
        case 14...16:
            // A system that numbers its changes, some of which are late.
            let late = Int.random(in: 0..<3, using: &self.random) == 0 ? 5 : 0
            self.add(order, .fulfillment(name, notes: "w\(text)"), source: "/wms", sequence: self.count + 10 - late)
        case 17: self.add(order, .invalid)
        case 18: self.add(order, .broken)
        default:
            // One of the last changes arrives again.
            guard let copy = self.log.suffix(6).randomElement(using: &self.random) else { return }
            self.log.append(copy)
        }
    }
}
