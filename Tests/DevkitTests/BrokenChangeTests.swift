import Kafka
import Model
import Testing

@testable import Devkit

@Suite struct BrokenChangeTests {
    static let stories = OlistTable.generate(20, seed: 11).map(OrderStory.init)

    @Test(arguments: BrokenChange.allCases)
    func theFaultHasThePromisedCodeAndNamesWhatToFix(_ kind: BrokenChange) throws {
        for (number, story) in Self.stories.enumerated() {
            let before = try #require(try OrderStoryTests.fold(nil, story.changes(orderType: Orders.type)).state)
            let message = kind.message(story, number: number, orderType: Orders.type, topic: "changes")
            #expect(message.topic == "changes")
            #expect(String(decoding: message.key ?? [], as: UTF8.self) == "\(Orders.type)/\(story.order.identifier)")
            let fault = try #require(Self.fault(message.decoded, before))
            #expect(fault.code.rawValue == kind.code)
            #expect(fault.reason.contains(kind.mention), "\(fault.reason)")
        }
    }

    /// Returns the fault with which decoding or folding refuses the change; the order must stay unchanged.
    private static func fault(
        _ decode: () throws(ChangeFault) -> OrderChange, _ before: OrderState
    ) -> ChangeFault? {
        let change: OrderChange
        do {
            change = try decode()
        } catch {
            return error
        }
        let position = ChangePosition(partition: 0, offset: 1000, timestampMilliseconds: 2)
        let result = Orders.fold.fold(before, changes: [(position, change)], nowEpochSeconds: Orders.now)
        #expect(result.effect == .advanced)
        #expect(result.state?.document == before.document)
        #expect(result.state?.version == before.version)
        if case .refused(let fault) = result.outcomes.first { return fault }
        return nil
    }
}
