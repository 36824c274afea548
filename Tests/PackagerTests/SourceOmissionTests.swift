import Kafka
import Model
import Operations
import TestKit
import Testing

@testable import Packager

/// Records of a source with members that no order may have.
@Suite struct SourceOmissionTests {
    private static let program = """
        local words = {PAID = "paid", SENT = "shipped"}
        function map(e)
            return {{order = e.id, data = {
                createdAt = "2026-01-01T00:00:00Z", status = "open", orderManagementURL = e.page,
                payment = {status = words[e.paid], total = {amount = e.total, currency = "EUR"}},
                lineItems = {{sku = "L", title = "Lamp", quantity = 1, image = e.image}},
                fulfillments = {{fulfillmentIdentifier = "f", fulfillmentType = "shipping", status = words[e.parcel],
                                 trackingURL = e.link}}}}}
        end
        """
    private static let owns = #""owns": ["payment", "lineItems", "fulfillments"]"#

    private func map(
        _ event: JSON, extra: String = Self.owns
    ) throws -> (mapping: SourceMapping, data: JSON?) {
        let good: JSON = [
            "id": "1", "page": "https://shop.example/1", "paid": "PAID", "total": "5.00", "parcel": "SENT",
            "image": "https://cdn.example/l.png", "link": "https://track.example/1",
        ]
        let whole = event.object?.members.reduce(good) { $0.setting($1.value, $1.name) } ?? good
        let mapping = try SourceFixture.map(Self.program, value: whole.text, extra: extra)
        return (mapping, mapping.events.first?.object?["data"])
    }

    @Test func aBrokenOrnamentCostsNothingElse() throws {
        let good = try self.map([:])
        #expect(good.mapping.omitted.isEmpty)
        #expect(good.mapping.events.count == 1)
        for (event, data, omitted) in [
            (["paid": "EXPIRED"], good.data?.setting(nil, "payment.status"), ["payment.status"]),
            (["parcel": "DRONE"], good.data?.setting(nil, "fulfillments.0.status"), ["fulfillments.status"]),
            (
                ["link": "www.t.example/1"], good.data?.setting(nil, "fulfillments.0.trackingURL"),
                ["fulfillments.trackingURL"]
            ),
            (
                ["link": "https://t.example/1 2"],
                good.data?.setting("https://t.example/1%202", "fulfillments.0.trackingURL"), []
            ),
            (
                ["image": "//c.example/ü.png"], good.data?.setting("https://c.example/%C3%BC.png", "lineItems.0.image"),
                []
            ),
        ] as [(JSON, JSON?, [String])] {
            let (mapping, found) = try self.map(event)
            #expect(mapping.omitted.map(\.name) == omitted, "\(event)")
            #expect(found?.setting(nil, "keeps") == data, "\(event)")
            #expect((found?.object?["keeps"] == nil) == omitted.isEmpty)
        }
        let money = try self.map(["total": "5,00", "link": "n/a"]).mapping
        #expect(money.fault?.code == .mapInvalidChange)
        #expect(money.fault?.reason.contains("$.payment.total.amount") == true)
        #expect(money.fault?.reason.contains("trackingURL") == false)
    }

    @Test func aStrictSourceRefusesIt() throws {
        for event: JSON in [["paid": "EXPIRED"], ["link": "n/a"], ["image": "//c.example/ü.png"]] {
            let mapping = try self.map(event, extra: Self.owns + #", "strict": true"#).mapping
            #expect(mapping.fault?.code == .mapInvalidChange, "\(event)")
        }
        let link = try self.map(["link": "https://t.example/1 2"], extra: Self.owns + #", "strict": true"#).mapping
        #expect(link.fault?.reason.hasSuffix("; write https://t.example/1%202") == true)
    }

    @Test func anUpdateOfAParcelGoesWithoutIt() throws {
        let mapping = try SourceFixture.map(
            """
            function map(e)
                return {{order = "1", type = "fulfillment.updated",
                         data = {fulfillmentIdentifier = "f", status = "delivered", trackingURL = "n/a"}}}
            end
            """, value: "{}")
        #expect(mapping.omitted.map(\.name) == ["fulfillments.trackingURL"])
        #expect(
            mapping.events.map { $0.object?["data"] } == [["fulfillmentIdentifier": "f", "status": "delivered"]])
    }

    @Test func omissionsAreCounted() throws {
        let registry = MetricsRegistry()
        let metrics = IngestMetrics(factory: registry)
        var tally = DryRunTally()
        let record = KafkaRecord(
            topic: "events", partition: 0, offset: 7, timestampMilliseconds: 0, key: nil, value: nil)
        for event: JSON in [["link": "n/a"], ["link": "n/a", "paid": "EXPIRED"], [:]] {
            let mapping = try self.map(event).mapping
            metrics.mapped(mapping, "s", took: .zero)
            tally.add(mapping, of: record)
        }
        let text = registry.text
        #expect(
            text.contains(#"waybill_ingest_omitted_total{source="s",member="fulfillments.trackingURL"} 2"#), "\(text)")
        #expect(text.contains(#"waybill_ingest_omitted_total{source="s",member="payment.status"} 1"#))
        #expect(tally.text.contains("2 left out: fulfillments.trackingURL, the first at events/0/7: $.fulfillments[0]"))
        #expect(tally.text.contains("1 left out: payment.status"))
        #expect(!tally.isRefused)
    }

    @Test func aTestNamesWhatIsLeftOut() async throws {
        let fixture = try SourceFixture()
        try fixture.write("s", topics: ["events"], extra: Self.owns, Self.program)
        let source = try fixture.load("s")
        let record: JSON = ["value": ["id": "1", "link": "n/a", "total": "5.00", "paid": "PAID", "parcel": "SENT"]]
        let test = SourceTest(name: "", content: ["record": record, "changes": [], "omitted": []])
        let wrong = await test.result(source, NearMapper())
        #expect(wrong.omitted.map(\.name) == ["fulfillments.trackingURL"])
        #expect(wrong.differences.last == "omitted: expected , it is fulfillments.trackingURL")
        var report = SourceTestReport()
        report.add("a", [], notes: wrong.omitted.map(\.description))
        #expect(report.text.contains("ok 1 - a\n# note: fulfillments.trackingURL is left out: $.fulfillments[0]"))
    }

    /// All of them, and what would be hidden besides.
    @Test func allObstaclesOfAnOrderAreNoted() throws {
        let mapping = try self.map(["parcel": "DRONE", "paid": "EXPIRED"]).mapping
        guard case .mapped(let changes) = mapping.outcome else {
            Issue.record("\(mapping.outcome)")
            return
        }
        let notes = OrderComparison.notes(on: changes.map(\.change), nowEpochSeconds: 1_767_225_600)
        for obstacle in ["$.merchant is missing", "fulfillments f without status", "$.payment.status is missing"] {
            #expect(notes.contains { $0.contains(obstacle) }, "\(obstacle): \(notes)")
        }
        let empty = OrderChange(key: changes[0].change.key, source: "/s", id: "1", kind: .merged([:], owns: nil))
        let missing = OrderComparison.notes(on: [empty], nowEpochSeconds: 1_767_225_600)
        #expect(missing.count == 4, "\(missing)")
    }
}
