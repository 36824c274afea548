import Kafka
import Model
import Testing

@testable import Devkit

@Suite struct ReplayPlanTests {
    private static let orders = 120

    static func plan(broken: Int, seed: UInt64 = 1) -> ReplayPlan {
        ReplayPlan(OlistTable.generate(Self.orders, seed: 5), orderType: Orders.type, broken: broken, seed: seed)
    }

    @Test func theStepsAreOrderedByTime() {
        let plan = Self.plan(broken: 0)
        let times = plan.steps.map { $0.message.attribute("time").flatMap { RFC3339.parse($0) } }
        #expect(!times.contains(nil))
        #expect(times.compactMap(\.self) == times.compactMap(\.self).sorted())
        #expect(plan.changeCount == plan.stories.reduce(0) { $0 + $1.moments.count })
        #expect(plan.changeCount == plan.steps.count)
        #expect(plan.brokenCount == 0)
    }

    @Test func theChangesOfAnOrderKeepTheirOrderAndTheFirstOneIsMarked() {
        let plan = Self.plan(broken: 100)
        var next: [[UInt8]: Int] = [:]
        for step in plan.steps where step.broken == nil {
            let key = step.message.key ?? []
            #expect(step.message.attribute("sequence") == "\(next[key, default: 0])")
            #expect((step.placed != nil) == (next[key] == nil))
            if let story = step.placed {
                #expect(key == Array("\(Orders.type)/\(plan.stories[story].order.identifier)".utf8))
            }
            next[key, default: 0] += 1
        }
        #expect(next.count == Self.orders)
    }

    @Test func bothModesAreUsed() {
        let isBinary = Self.plan(broken: 0).steps.map { $0.message.header("ce_specversion") != nil }
        #expect(isBinary.contains(true))
        #expect(isBinary.contains(false))
    }

    @Test(arguments: [0, 1, 10, 100])
    func thePlanHasTheRequestedNumberOfBrokenChanges(_ count: Int) {
        let plan = Self.plan(broken: count)
        #expect(plan.brokenCount == count)
        let kinds = Dictionary(grouping: plan.steps.compactMap(\.broken)) { $0 }.mapValues(\.count)
        for kind in BrokenChange.allCases {
            #expect(kinds[kind, default: 0] == (count + BrokenChange.allCases.count - 1 - kind.rawValue) / 10)
        }
        #expect(plan.steps.filter { $0.broken != nil }.allSatisfy { $0.placed == nil })
        // The messages that are not broken are the same with and without broken ones.
        #expect(plan.steps.filter { $0.broken == nil }.map(\.message) == Self.plan(broken: 0).steps.map(\.message))
    }

    @Test func theSeedDecidesTheReplayPlan() {
        let messages = { (seed: UInt64) in Self.plan(broken: 20, seed: seed).steps.map(\.message) }
        #expect(messages(1) == messages(1))
        #expect(messages(1) != messages(2))
    }

    @Test func samplesAreDrawnFromAllOrdersByTheSeed() {
        let plan = Self.plan(broken: 0)
        let drawn = plan.samples(30, seed: 1)
        #expect(drawn.count == 30)
        #expect(drawn.isSubset(of: Set(plan.stories.indices)))
        #expect(drawn == plan.samples(30, seed: 1))
        #expect(drawn != plan.samples(30, seed: 2))
        // The samples are not evenly spaced: the steps between them differ.
        let sorted = drawn.sorted()
        #expect(Set(zip(sorted, sorted.dropFirst()).map { $1 - $0 }).count > 3)
        #expect(plan.samples(1000, seed: 1).count == Self.orders)
        #expect(plan.samples(0, seed: 1).isEmpty)
    }
}
