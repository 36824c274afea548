import Brands
import Kafka
import Model
import Store
import TestKit
import TestTraits
import Testing
import Tokens

@testable import Packager

/// Orders that several sources write, and what devices are told, on a real Redis and a broker.
@Suite(.server) struct SeveralSourcesTests {
    private static let carrier: JSON = [
        "fulfillments": [["fulfillmentIdentifier": "f1", "fulfillmentType": "shipping", "status": "onTheWay"]]
    ]

    @Test func sourceContributionsAreKeptUntilAReplacement() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            let processor = try fixture.processor()
            try await processor.process([log.change("order.merged", "o", ChangeLog.document())])
            try await processor.process([log.change("order.merged", "o", Self.carrier, source: "/carrier")])
            let state = try #require(try await fixture.state("o"))
            #expect(state.version.ordinal == 2)
            #expect(state.contributions?.isEmpty == false)
            let record = try #require(try await fixture.read(fixture.topics.orders, 2).last)
            let told = try OrderRecord.decode(try #require(record.value)).state(key: state.key)
            #expect(told == state)
            #expect(record.headers.isEmpty)
            // A snapshot of the first source, folded by a worker that reads the stored order.
            try await processor.process([log.change("order.merged", "o", ChangeLog.document("3"))])
            let members = try #require(try await fixture.state("o")).document.members
            #expect(members["orderNumber"] == "3")
            #expect(members["fulfillments"] == Self.carrier.object?["fulfillments"])
            // A replacement makes it plain and drops what was kept of the parts.
            try await processor.process([log.change("order.replaced", "o", ChangeLog.document())])
            let plain = try #require(try await fixture.state("o"))
            #expect(plain.contributions == nil)
            #expect(plain.document.members["fulfillments"] == nil)
        }
    }

    @Test func aSilentChangePublishesASilentRecord() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            let processor = try fixture.processor()
            try await processor.process([log.change("order.replaced", "o", ChangeLog.document())])
            let silent = log.change("order.patched", "o", ["orderNumber": "2"], isSilent: true)
            try await processor.process([silent])
            try await processor.process([log.change("order.announced", "o", nil)])
            try await processor.process([log.change("order.announced", "o", ["touch": true])])
            // If it is unknown whether the version was published, a redelivery publishes it again, also silently.
            try await fixture.forgetTold("o")
            try await processor.process([silent])
            let records = try await fixture.read(fixture.topics.orders, 5)
            #expect(records.map { $0.header(RecordHeader.silent.rawValue) } == [nil, "1", nil, nil, "1"])
            let versions = try records.map { try OrderRecord.decode($0.value ?? []).version.ordinal }
            #expect(versions == [1, 2, 2, 3, 3])
            #expect(fixture.counter("waybill_packages_built_total") == 3)
        }
    }

    @Test func aStaticOrderIsStoredWithItsToken() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            let document = ChangeLog.document(extra: [("webServiceURL", .null)])
            try await fixture.processor().process([log.change("order.replaced", "o", document)])
            let stored = try #require(try await fixture.stored("o"))
            #expect(stored.state.document.isStatic)
            #expect(!stored.entityTag.isEmpty)
            #expect(stored.state.token == (try BrandFixture.tokens().token(for: stored.state.key)))
        }
    }
}
