import Kafka
import Model
import TestKit

/// A stream of changes of a given length, and the expected final document of each order.
///
/// Each order follows its story. Between its changes are notes, which patch `statusDescription`, and repetitions, as
/// from a publisher that missed an acknowledgement. Orders begin throughout the stream, so that every part of it has
/// new and old ones.
struct ChaosPlan: Sendable {
    struct Step: Sendable {
        let message: KafkaMessage
        let story: Int
        /// True if devices may request the order from this step on.
        let isFirst: Bool
        /// Set for a change that cannot be applied and must become a dead letter.
        let broken: BrokenChange?
    }

    /// One in `repetition` changes is repeated, and one in `breakage` is broken.
    private static let repetition = 20
    private static let breakage = 100
    /// A repetition is of the current change of the order or of one of this many before it, fewer than the packager
    /// remembers by id.
    private static let memory = 16

    let orders: [ExpectedOrder]
    let steps: [Step]
    let orderType: OrderTypeIdentifier

    /// - Parameters:
    ///   - source: the orders to choose from; enough are taken that there are about as many notes as changes.
    ///   - count: the number of steps, at least one for each change of an order.
    init(_ source: [OlistOrder], orderType: OrderTypeIdentifier, count: Int, seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        self.orderType = orderType
        var stories: [OrderStory] = []
        var changes = 0
        for story in source.lazy.map(OrderStory.init) {
            guard stories.isEmpty || (changes + story.moments.count) * 2 <= count else { break }
            stories.append(story)
            changes += story.moments.count
        }
        var notes = [Int](repeating: 0, count: stories.count)
        let room = max(0, count - changes)
        let others = room / Self.repetition + room / Self.breakage
        if !stories.isEmpty {
            for _ in 0..<max(0, room - others) { notes[Int.random(in: 0..<stories.count, using: &random)] += 1 }
        }
        var timed: [(time: Double, step: Step)] = []
        for (index, story) in stories.enumerated() {
            let life = Life(story: story, orderType: orderType, notes: notes[index])
            let messages = life.messages(using: &random)
            let start = Double.random(in: 0..<0.85, using: &random)
            let times = messages.map { _ in Double.random(in: start..<1, using: &random) }.sorted()
            for (place, message) in messages.enumerated() {
                let step = Step(message: message, story: index, isFirst: place == 0, broken: nil)
                timed.append((times[place], step))
                guard Int.random(in: 0..<Self.repetition, using: &random) == 0 else { continue }
                let again = messages[Int.random(in: max(0, place - Self.memory)...place, using: &random)]
                let next = place + 1 < times.count ? times[place + 1] : 1
                timed.append((next, Step(message: again, story: index, isFirst: false, broken: nil)))
            }
        }
        let kinds = BrokenChange.allCases.filter { $0 != .hugeValue }
        for number in 0..<(stories.isEmpty ? 0 : room / Self.breakage) {
            let kind = kinds[number % kinds.count]
            let story = Int.random(in: 0..<stories.count, using: &random)
            let message = kind.message(
                stories[story], number: number, orderType: orderType, topic: Topics().orderChanges)
            timed.append(
                (
                    Double.random(in: 0..<1, using: &random),
                    Step(message: message, story: story, isFirst: false, broken: kind)
                ))
        }
        // Stable: a repetition has the time of the change that it precedes.
        self.steps = timed.enumerated().sorted { ($0.element.time, $0.offset) < ($1.element.time, $1.offset) }
            .map(\.element.step)
        self.orders = zip(stories, notes).map { story, notes in
            var document = Self.marked(story.expected, story.order.identifier)
            if notes > 0 { document["statusDescription"] = .string(Life.note(notes - 1)) }
            return ExpectedOrder(identifier: story.order.identifier, document: document)
        }
    }

    /// Returns the text that the customer's address of an order has, and nothing else does.
    static func mark(of order: String) -> String { String(order.reversed()) }

    /// Returns a document whose customer has a mark.
    private static func marked(_ document: JSONObject, _ order: String) -> JSONObject {
        var document = document
        guard var customer = document["customer"]?.object else { return document }
        customer["emailAddress"] = .string("\(Self.mark(of: order))@example.com")
        document["customer"] = .object(customer)
        return document
    }

    /// Returns the change that makes an order anew that was removed, whole as it was meant to become.
    func anew(_ order: Int) -> KafkaMessage {
        let expected = self.orders[order]
        return CloudEvent(
            id: "\(expected.identifier)-anew", source: "/olist/anew", type: CloudEvent.ChangeType.replaced.rawValue,
            subject: "\(self.orderType)/\(expected.identifier)", data: .object(expected.document)
        ).message(topic: Topics().orderChanges, mode: .structured)
    }

    /// Mean bytes of a document, for `ChaosBounds`.
    var documentBytes: Int {
        guard !self.orders.isEmpty else { return 0 }
        return self.orders.reduce(0) { $0 + $1.document.size } / self.orders.count
    }

    /// Mean bytes of a change with its headers.
    var changeBytes: Int {
        guard !self.steps.isEmpty else { return 0 }
        let all = self.steps.reduce(0) { sum, step in
            sum + (step.message.value?.count ?? 0) + (step.message.key?.count ?? 0)
                + step.message.headers.reduce(0) { $0 + $1.name.utf8.count + ($1.value?.count ?? 0) }
        }
        return all / self.steps.count
    }

    /// The changes of one order, interspersed with its notes.
    private struct Life {
        let story: OrderStory
        let orderType: OrderTypeIdentifier
        let notes: Int

        static func note(_ number: Int) -> String { "note \(number)" }

        func messages(using random: inout SeededGenerator) -> [KafkaMessage] {
            var changes = self.story.changes(orderType: self.orderType).map(\.event)[...]
            var messages: [KafkaMessage] = []
            var note = 0
            let topic = Topics().orderChanges
            while !changes.isEmpty || note < self.notes {
                let left = changes.count + self.notes - note
                let isChange = messages.isEmpty || Int.random(in: 0..<left, using: &random) < changes.count
                var event: CloudEvent
                if isChange, let change = changes.popFirst() {
                    event = change
                    if messages.isEmpty, let data = event.data?.object {
                        event.data = .object(ChaosPlan.marked(data, self.story.order.identifier))
                    }
                } else {
                    event = self.event(note)
                    note += 1
                }
                messages.append(event.message(topic: topic, mode: messages.count % 2 == 0 ? .structured : .binary))
            }
            return messages
        }

        private func event(_ note: Int) -> CloudEvent {
            CloudEvent(
                id: "\(self.story.order.identifier)-note-\(note)", source: "/olist/notes",
                type: CloudEvent.ChangeType.patched.rawValue,
                subject: "\(self.orderType)/\(self.story.order.identifier)", sequence: String(note),
                data: ["statusDescription": .string(Self.note(note))])
        }
    }
}

extension JSONObject {
    /// The number of bytes of the serialized object.
    fileprivate var size: Int { JSON.object(self).serialized.count }
}
