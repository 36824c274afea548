import Kafka
import Model
import Operations
import Synchronization
import TestKit
import Testing

@testable import Brands
@testable import Packager
@testable import Packaging
@testable import Store

@Suite struct OrderPackagerTests {
    private static let poison = "too large for any phone"

    /// A packager that counts what it builds and finds orders with a poisonous number too large.
    private final class Fixture: Sendable {
        private let builds = Mutex(0)
        var count: Int { self.builds.withLock { $0 } }

        func packager() throws -> OrderPackager {
            let brand = try BrandFixture.shared.get().brand
            let builder = PackageBuilder(brand)
            return OrderPackager(brand, tokens: try BrandFixture.tokens()) {
                (order, pictures, now) throws(PackagingError) in
                self.builds.withLock { $0 += 1 }
                if order.object?["orderNumber"] == .string(poison) { throw PackagingError(.tooLarge, "6 MB") }
                if order.object?["orderNumber"] == "unsigned" { throw PackagingError(.signing, "no entropy") }
                return try builder.build(order, pictures: pictures, signingEpochSeconds: now)
            }
        }
    }

    private func draft(
        _ packager: OrderPackager, _ records: [KafkaRecord], on stored: OrderStore.StoredOrder? = nil
    ) throws -> OrderDraft {
        let batch = ChangeBatch(KeyedWork.each(of: records)) { _ in .served }
        let order = try #require(batch.orders.first)
        let draft = packager.fold(order, stored: stored, nowEpochSeconds: ChangeLog.noon)
        return try packager.package(draft, nowEpochSeconds: ChangeLog.noon)
    }

    @Test func manyChangesOfOneOrderBuildOnePackage() throws {
        var log = ChangeLog()
        let fixture = Fixture()
        var records = [log.change("order.replaced", "o", ChangeLog.document())]
        records += (2...10).map { log.change("order.patched", "o", ["orderNumber": .string("\($0)")]) }
        let draft = try self.draft(try fixture.packager(), records)
        #expect(fixture.count == 1)
        #expect(draft.result.effect == .changed)
        #expect(draft.state?.version.ordinal == 1)
        #expect(draft.state?.document.members["orderNumber"] == "10")
        #expect(draft.write?.expectedRevision == 0)
        #expect(draft.result.outcomes == Array(repeating: .applied, count: 10))
        #expect((try OrderRecord.decode(#require(draft.record))).content == draft.package?.contentDigest)
    }

    @Test func onlyInvalidChangesAndThoseExceedingThePackageSizeAreRefused() throws {
        var log = ChangeLog()
        let records = [
            log.change("order.replaced", "o", ChangeLog.document()),
            log.change("order.patched", "o", ["orderNumber": .string(Self.poison)]),
            log.change("order.patched", "o", ["status": "nonsense"]),
            log.change("fulfillment.updated", "o", ChangeLog.fulfillment("f")),
            log.change("order.patched", "o", ["orderNumber": .string(Self.poison)], id: "again"),
        ]
        let draft = try self.draft(try Fixture().packager(), records)
        #expect(draft.result.effect == .changed)
        #expect(draft.package != nil)
        #expect(draft.state?.document.members["orderNumber"] == "1")
        #expect(draft.state?.document.members["fulfillments"]?.array?.count == 1)
        let codes = draft.result.outcomes.map { outcome -> ChangeFault.Code? in
            if case .refused(let fault) = outcome { fault.code } else { nil }
        }
        #expect(codes == [nil, .invalidPackage, .invalidOrder, nil, .invalidPackage])
        #expect(draft.result.outcomes[0] == .applied)
        #expect(draft.result.outcomes[3] == .applied)
    }

    @Test func anOversizedChangeIsIsolatedWithFewPackageBuilds() throws {
        var log = ChangeLog()
        let fixture = Fixture()
        var records = [log.change("order.replaced", "o", ChangeLog.document())]
        records += (1..<30).map { log.change("fulfillment.updated", "o", ChangeLog.fulfillment("f\($0)")) }
        records.append(log.change("order.patched", "o", ["orderNumber": .string(Self.poison)]))
        records += (30..<45).map { log.change("fulfillment.updated", "o", ChangeLog.fulfillment("f\($0)")) }
        let draft = try self.draft(try fixture.packager(), records)
        #expect(draft.result.outcomes.count { $0 == .applied } == 45)
        #expect(draft.state?.document.members["fulfillments"]?.array?.count == 44)
        #expect(fixture.count < 20, "\(fixture.count) packages for one bad change of 46")
    }

    @Test func aNewOrderThatExceedsThePackageSizeIsNotStored() throws {
        var log = ChangeLog()
        let draft = try self.draft(
            try Fixture().packager(), [log.change("order.replaced", "o", ChangeLog.document(Self.poison))])
        #expect(draft.state == nil)
        #expect(draft.result.effect == .none)
        #expect(draft.write == nil)
    }

    @Test func anOversizedOrderIsAcceptedIfALaterChangeShrinksIt() throws {
        var log = ChangeLog()
        let fixture = Fixture()
        let records = [
            log.change("order.replaced", "o", ChangeLog.document(Self.poison)),
            log.change("order.patched", "o", ["orderNumber": "small"]),
        ]
        let draft = try self.draft(try fixture.packager(), records)
        #expect(draft.result.outcomes == [.applied, .applied])
        #expect(fixture.count == 1)
    }

    @Test func aSigningFailureIsNotBlamedOnAChange() throws {
        var log = ChangeLog()
        let records = [log.change("order.replaced", "o", ChangeLog.document("unsigned"))]
        let packager = try Fixture().packager()
        let error = #expect(throws: PackagingError.self) { try self.draft(packager, records) }
        #expect(error?.code == .signing)
    }

    @Test func anUnchangedOrderIsNotPackaged() throws {
        var log = ChangeLog()
        let fixture = Fixture()
        let packager = try fixture.packager()
        let first = try self.draft(packager, [log.change("order.replaced", "o", ChangeLog.document())])
        let stored = OrderStore.StoredOrder(
            state: try #require(first.state), revision: 1, entityTag: "tag", shared: ["asset", "certificates"])
        let second = try self.draft(
            packager, [log.change("order.replaced", "o", ChangeLog.document())], on: stored)
        #expect(fixture.count == 1)
        #expect(second.result.effect == .advanced)
        #expect(second.package == nil)
        #expect(second.result.outcomes == [.unchanged])
        #expect(!second.hasRepetition)
        guard case .positions? = second.write?.content else {
            Issue.record("only the positions are to be written")
            return
        }
    }

    @Test func aRedeliveredChangeIsMarkedAndWritesNothing() throws {
        var log = ChangeLog()
        let fixture = Fixture()
        let packager = try fixture.packager()
        let record = log.change("order.replaced", "o", ChangeLog.document())
        let first = try self.draft(packager, [record])
        let digest = String(repeating: "ab", count: 32)
        let content = String(repeating: "cd", count: 16)
        var stored = OrderStore.StoredOrder(
            state: try #require(first.state), revision: 1, entityTag: "tag", shared: [digest, "certificates"])
        stored.content = content
        let second = try self.draft(packager, [record], on: stored)
        #expect(second.result.outcomes == [.skipped(.redelivered)])
        #expect(second.hasRepetition)
        #expect(second.result.effect == .none)
        #expect(second.write == nil)
        #expect(second.record == nil)
        #expect(second.needsPublishing)
        #expect(try OrderRecord.decode(try #require(second.published)).content == content)
        #expect(fixture.count == 1)
    }
}
