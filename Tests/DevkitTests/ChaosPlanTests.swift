import Kafka
import Model
import Testing

@testable import Devkit

@Suite struct ChaosPlanTests {
    static func plan(_ count: Int = 4000, seed: UInt64 = 1) -> ChaosPlan {
        ChaosPlan(OlistTable.generate(300, seed: 5), orderType: Orders.type, count: count, seed: seed)
    }

    @Test(arguments: [200, 1000, 4000])
    func thePlanHasAboutTheRequestedLength(_ count: Int) {
        let steps = Self.plan(count).steps.count
        #expect(abs(steps - count) <= count / 10, "\(steps)")
    }

    @Test func theSeedDecidesTheChaosPlan() {
        let messages = { (seed: UInt64) in Self.plan(1000, seed: seed).steps.map(\.message) }
        #expect(messages(1) == messages(1))
        #expect(messages(1) != messages(2))
    }

    /// The packager's own fold, given every step in turn, produces the documents that the plan expects.
    @Test func theFoldOfAllStepsGivesTheExpectedOrders() throws {
        let plan = Self.plan()
        var states: [OrderKey: OrderState] = [:]
        for (index, step) in plan.steps.enumerated() where step.broken == nil {
            let change = try step.message.decoded()
            let position = ChangePosition(partition: 0, offset: Int64(index), timestampMilliseconds: Int64(index))
            let result = Orders.fold.fold(
                states[change.key], changes: [(position, change)], nowEpochSeconds: Orders.now)
            // A repetition changes nothing, so there is nothing to store.
            states[change.key] = result.state ?? states[change.key]
        }
        #expect(states.count == plan.orders.count)
        for order in plan.orders {
            let key = OrderKey(orderType: Orders.type, order: try OrderIdentifier(order.identifier))
            let document = OrderFile.document(.object(try #require(states[key]).document.members))
            #expect(document == order.document, "\(order.identifier)")
        }
    }

    @Test func thePlanHasRepeatedAndBrokenButNoHugeChanges() {
        let plan = Self.plan()
        var seen: Set<[UInt8]> = []
        let repeated = plan.steps.count { $0.broken == nil && !seen.insert(Self.identity($0.message)).inserted }
        #expect((50...300).contains(repeated), "\(repeated)")
        let broken = plan.steps.compactMap(\.broken)
        #expect(Set(broken) == Set(BrokenChange.allCases).subtracting([.hugeValue]))
        #expect(broken.count < 60)
    }

    private static func identity(_ message: KafkaMessage) -> [UInt8] {
        (message.key ?? []) + (message.attribute("id").map { Array($0.utf8) } ?? [])
    }

    @Test func eachOrderBeginsOnceAndSomeBeginLate() {
        let plan = Self.plan()
        let firsts = plan.steps.indices.filter { plan.steps[$0].isFirst }
        #expect(firsts.count == plan.orders.count)
        #expect(Set(firsts.map { plan.steps[$0].story }).count == firsts.count)
        #expect(firsts.contains { $0 > plan.steps.count * 2 / 3 })
        var begun: Set<Int> = []
        for step in plan.steps where step.broken == nil {
            if step.isFirst { begun.insert(step.story) }
            #expect(begun.contains(step.story))
        }
    }

    /// A change that is sent again must not arrive after a later change of its order.
    @Test func aBatchHasEachOrderOnce() {
        let steps = Self.plan().steps
        var rest = steps[...]
        while !rest.isEmpty {
            let batch = ChaosPublisher.distinct(rest)
            #expect(!batch.isEmpty)
            #expect(Set(batch.map { $0.message.key ?? [] }).count == batch.count)
            rest = rest.dropFirst(batch.count)
        }
        #expect(ChaosPublisher.distinct(steps[...]).count > 1)
    }

    @Test func anOrderIsMadeAnewAsItWasMeantToBecome() throws {
        let plan = Self.plan()
        for (index, order) in plan.orders.enumerated() {
            let change = try plan.anew(index).decoded()
            let position = ChangePosition(partition: 0, offset: 0, timestampMilliseconds: 1)
            let state = Orders.fold.fold(nil, changes: [(position, change)], nowEpochSeconds: Orders.now).state
            let document = OrderFile.document(.object(try #require(state).document.members))
            #expect(document == order.document, "\(order.identifier)")
            #expect(JSON.object(document).text.contains("\"\(ChaosPlan.mark(of: order.identifier))@"))
        }
    }

    @Test func withoutOrdersThereAreNoSteps() {
        let plan = ChaosPlan([], orderType: Orders.type, count: 1000, seed: 1)
        #expect(plan.steps.isEmpty)
        #expect(plan.orders.isEmpty)
        #expect(plan.documentBytes == 0)
        #expect(plan.changeBytes == 0)
    }
}

@Suite struct ChaosBoundsTests {
    static let bounds = ChaosBounds(partitions: 64, changeBytes: 900, documentBytes: 1500)

    @Test func aRunWithinTheLimitIsAccepted() {
        #expect(Self.bounds.refusal(changes: Self.bounds.limit, seconds: 900) == nil)
        #expect(Self.bounds.refusal(changes: 0, seconds: 1) == nil)
    }

    @Test func aRunOverTheLimitIsRefusedWithAPossibleRate() throws {
        let refusal = try #require(Self.bounds.refusal(changes: Self.bounds.limit + 1, seconds: 900))
        let rate = Self.bounds.limit / 900
        #expect(refusal.contains("at most \(rate) a second for 900 s"))
        #expect(refusal.contains("--kafka"))
        #expect(Self.bounds.refusal(changes: rate * 900, seconds: 900) == nil)
    }

    /// All records of a run stay below a partition's retention, given the assumed unevenness between partitions.
    @Test(arguments: [(900, 1500), (4000, 100), (1, 1)])
    func theLimitKeepsEveryPartitionBelowItsRetention(_ change: Int, _ document: Int) {
        let bounds = ChaosBounds(partitions: 64, changeBytes: change, documentBytes: document)
        let largest = max(change, document + 1500)
        #expect(bounds.limit * largest / 64 * 16 / 10 <= ChaosBounds.retention)
        #expect((bounds.limit + 200) * largest / 64 * 16 / 10 >= ChaosBounds.retention * 9 / 10)
    }

    @Test func zeroPartitionsOrSecondsCauseNoDivisionByZero() {
        let bounds = ChaosBounds(partitions: 0, changeBytes: 0, documentBytes: 0)
        #expect(bounds.limit > 0)
        #expect(bounds.refusal(changes: 1 << 40, seconds: 0) != nil)
    }
}

@Suite struct ChaosControlTests {
    @Test func onlyTheWordsOfTheDriverAreCommands() {
        #expect(ChaosControl("mark 3-redis-kill") == .mark("3-redis-kill"))
        #expect(ChaosControl("pause") == .pause)
        #expect(ChaosControl("move 127.0.0.1:9092") == .move("127.0.0.1:9092"))
        #expect(ChaosControl("forget 3") == .forget(3))
        #expect(ChaosControl("end") == .end)
        let others = [
            "", "mark", "mark a b", "pause now", "move", "move a b", "end now", "stop", "forget", "forget 0",
            "forget x",
        ]
        for line in others {
            #expect(ChaosControl(line) == nil)
        }
    }
}

@Suite struct ChaosTallyTests {
    @Test func redisCountsAsFallenBackUntilEveryFallIsRepaired() {
        let tally = ChaosTally()
        #expect(!tally.hasFallen)
        tally.fall()
        tally.fall()
        tally.rise()
        #expect(tally.hasFallen)
    }

    @Test func allDifferencesAreCountedAndTheFirstOnesExplained() {
        let tally = ChaosTally()
        for number in 0..<1000 { tally.differ("difference \(number)") }
        tally.count("a.b", by: 3)
        tally.count("a.b")
        #expect(tally.differences.count == 1000)
        #expect(tally.differences.explained.first == "difference 0")
        #expect(tally.differences.explained.count == 100)
        #expect(tally.counts == ["a.b": 4])
    }
}
