import Kafka
import Model
import TestKit

/// Everything that will be published, in chronological order, and the expected results.
struct ReplayPlan: Sendable {
    struct Step: Sendable {
        let message: KafkaMessage
        /// Set for a broken one.
        let broken: BrokenChange?
        /// Set for the first change of an order: from then on devices may request it.
        let placed: Int?
    }

    let stories: [OrderStory]
    let steps: [Step]
    let orderType: OrderTypeIdentifier

    var brokenCount: Int { self.steps.count { $0.broken != nil } }
    var changeCount: Int { self.steps.count - self.brokenCount }

    /// - Parameter broken: the number of broken changes, of all kinds in turn, at positions chosen by the seed.
    init(_ orders: [OlistOrder], orderType: OrderTypeIdentifier, broken: Int, seed: UInt64) {
        let topic = Topics().orderChanges
        self.orderType = orderType
        self.stories = orders.map(OrderStory.init)
        var timed: [(time: Int64, story: Int, index: Int, step: Step)] = []
        for (story, life) in self.stories.enumerated() {
            for (index, change) in life.changes(orderType: orderType).enumerated() {
                let step = Step(
                    message: change.event.message(topic: topic, mode: index % 2 == 0 ? .structured : .binary),
                    broken: nil, placed: index == 0 ? story : nil)
                timed.append((change.time, story, index, step))
            }
        }
        timed.sort { ($0.time, $0.story, $0.index) < ($1.time, $1.story, $1.index) }
        var steps = timed.map(\.step)
        var random = SeededGenerator(seed: seed ^ 0xB0B)
        for number in 0..<broken {
            let kind = BrokenChange.allCases[number % BrokenChange.allCases.count]
            let story = self.stories[Int.random(in: 0..<self.stories.count, using: &random)]
            let message = kind.message(story, number: number, orderType: orderType, topic: topic)
            steps.insert(
                Step(message: message, broken: kind, placed: nil), at: Int.random(in: 0...steps.count, using: &random))
        }
        self.steps = steps
    }

    /// Returns a number of orders, chosen by the seed, that are checked in more detail.
    func samples(_ count: Int, seed: UInt64) -> Set<Int> {
        var random = SeededGenerator(seed: seed ^ 0x5A4D_91E5)
        return Set(self.stories.indices.shuffled(using: &random).prefix(count))
    }
}
