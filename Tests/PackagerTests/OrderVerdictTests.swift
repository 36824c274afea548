import Brands
import Model
import Operations
import Testing

@testable import Packager

/// The judgement of what was found about an order, in a table.
@Suite struct OrderVerdictTests {
    struct Case: Sendable, CustomTestStringConvertible {
        let testDescription: String
        /// Changes the facts of an order that is well.
        let change: @Sendable (inout OrderFacts) -> Void
        let codes: [OrderFinding.Code]
        var isHealthy = false
        var text = ""
        var fix = ""

        init(
            _ name: String, _ codes: [OrderFinding.Code], isHealthy: Bool = false, text: String = "", fix: String = "",
            _ change: @escaping @Sendable (inout OrderFacts) -> Void
        ) {
            (self.testDescription, self.codes, self.change) = (name, codes, change)
            (self.isHealthy, self.text, self.fix) = (isHealthy, text, fix)
        }
    }

    private static let type = "order.com.example.shop"
    private static let now: Int64 = 1_767_268_800_000

    /// The facts about an order with version 7 that is well.
    private static func facts() throws -> OrderFacts {
        OrderFacts(
            key: try OrderKey("\(Self.type)/1234"), nowMilliseconds: Self.now, brand: .loaded([]),
            redis: .success(Self.redis()), record: .success(Self.record(.version(7))), letters: .success([]),
            waiting: .success([]), partitions: 4)
    }

    private static func redis(
        _ change: (inout StoredFacts) -> Void = { _ in }, _ around: (inout RedisFacts) -> Void = { _ in }
    ) -> RedisFacts {
        var order = StoredFacts(version: 7)
        order.modifiedEpochSeconds = Self.now / 1000 - 60
        (order.assets, order.isSigned, order.isCurrent) = (3, true, true)
        order.token = .minted(place: 0, of: 2, isOfBrand: false)
        change(&order)
        var redis = RedisFacts(order: order, devices: 2, partitions: 4)
        around(&redis)
        return redis
    }

    private static func record(_ content: RecordFact.Content, milliseconds: Int64 = now) -> RecordFact {
        RecordFact(content: content, partition: 3, offset: 17, milliseconds: milliseconds)
    }

    private static func certificate(_ days: Int64) throws -> BrandCertificate {
        BrandCertificate(
            orderType: try OrderTypeIdentifier(Self.type), use: .signing,
            notAfterEpochSeconds: Self.now / 1000 + days * 86_400)
    }

    private static func waiting(_ age: Int64) -> WaitingFact {
        WaitingFact(
            topic: "waybill.order-changes", partition: 1, offset: 40, milliseconds: Self.now - age, changes: 3)
    }

    private static let letter = LetterFact(
        position: DeadLetterPosition(partition: 3, offset: 5), milliseconds: now, code: "invalid-order")

    private static let states: [Case] = [
        Case("well", [], isHealthy: true, text: "Redis and the last record have version 7") { _ in },
        Case(
            "not published", [.recordBehind], text: "Redis has version 7, the last record (3/17) version 6",
            fix: "look again in a moment"
        ) {
            $0.redis = .success(redis { $0.isPublished = false })
            $0.record = .success(record(.version(6)))
        },
        Case("published, and lost", [.recordLost], text: "Kafka acknowledged", fix: "WAYBILL_KAFKA_BOOTSTRAP") {
            $0.record = .success(record(.version(6)))
        },
        Case(
            "Redis behind", [.redisBehind], text: "Redis has version 7, the last record (3/17) version 8",
            fix: "waybill-packager restore --brand order.com.example.shop --order 1234"
        ) { $0.record = .success(record(.version(8))) },
        Case("Redis without the order", [.redisMissing], text: "has version 7", fix: "restore --brand") {
            $0.redis = .success(
                redis { _ in
                } _: {
                    $0.order = nil
                })
        },
        Case(
            "Redis without the order while it is restored", [.viewIncomplete, .redisMissing], text: "being restored",
            fix: "wait"
        ) {
            $0.redis = .success(
                redis { _ in
                } _: {
                    ($0.order, $0.isComplete) = (nil, false)
                })
        },
        Case("no record", [.recordMissing], text: "no record", fix: "waybill.order.announced") {
            $0.record = .success(nil)
        },
        Case("no record in the key's new partition", [.partitionsAdded], text: "has 4 partitions", fix: "rekey") {
            $0.record = .success(nil)
            $0.redis = .success(
                redis { _ in
                } _: {
                    $0.partitions = 3
                })
        },
        Case("no record that can be read", [.recordUnreadable], text: "(3/17)", fix: "who else writes") {
            $0.record = .success(record(.unreadable("no member version")))
        },
        Case("no state that can be read", [.stateCorrupt], text: "a field is missing", fix: "remove the order's key") {
            $0.redis = .success(
                redis { _ in
                } _: {
                    ($0.order, $0.corruption) = (nil, "a field is missing")
                })
        },
        Case("removed", [], isHealthy: true, text: "removed with version 7") {
            $0.redis = .success(redis { $0.isRemoved = true })
            $0.record = .success(record(.removed(7)))
        },
        Case("removed, and the tombstone compacted", [], isHealthy: true, text: "removed with version 7") {
            $0.redis = .success(redis { $0.isRemoved = true })
            $0.record = .success(nil)
        },
        Case("removed, and the trace expired", [], isHealthy: true, text: "removed with version 7") {
            $0.redis = .success(
                redis { _ in
                } _: {
                    $0.order = nil
                })
            $0.record = .success(record(.removed(7)))
        },
        Case("removed, all but a memory", [], isHealthy: true, text: "within the last 90 days") {
            $0.redis = .success(
                redis { _ in
                } _: {
                    ($0.order, $0.wasRemoved) = (nil, true)
                })
            $0.record = .success(nil)
        },
        Case("removed in Kafka alone", [.redisBehind], text: "is a removal 8", fix: "restore --brand") {
            $0.record = .success(record(.removed(8)))
        },
        Case("removed in Kafka by someone else", [.redisBehind], text: "is a removal", fix: "restore --brand") {
            $0.record = .success(record(.removed(nil)))
        },
        Case("created again after a removal by someone else", [.recordLost], text: "is a removal") {
            $0.record = .success(record(.removed(nil), milliseconds: now - 3_600_000))
        },
        Case("removal not published", [.recordBehind], text: "Redis has the removal, version 7") {
            $0.redis = .success(redis { ($0.isRemoved, $0.isPublished) = (true, false) })
            $0.record = .success(record(.version(6)))
        },
        Case("nowhere", [.notFound], text: "not found anywhere", fix: "compare type and identifier") {
            $0.redis = .success(
                redis { _ in
                } _: {
                    $0.order = nil
                })
            $0.record = .success(nil)
        },
        Case(
            "only early changes", [.notCreated, .deadLetters, .earlyChanges],
            text: "0 that wait, 1 dead letter, 2 kept until it is created", fix: "waybill.order.replaced"
        ) {
            $0.redis = .success(
                redis { _ in
                } _: {
                    ($0.order, $0.early) = (nil, 2)
                })
            $0.record = .success(nil)
            $0.letters = .success([letter])
        },
        Case("Redis away", [.redisUnread], text: "Redis cannot be read: refused", fix: "WAYBILL_REDIS_URL") {
            $0.redis = .failure(Unread(description: "refused"))
        },
        Case("Kafka away", [.recordUnread, .lettersUnread, .waitingUnread], text: "waybill.orders cannot be read") {
            $0.record = .failure(Unread(description: "timed out"))
            $0.letters = .failure(Unread(description: "timed out"))
            $0.waiting = .failure(Unread(description: "timed out"))
        },
    ]

    private static let parts: [Case] = [
        Case("state without package", [.packageMissing], text: "state without package", fix: "\"touch\": true") {
            $0.redis = .success(redis { $0.hasPackage = false })
        },
        Case("files missing", [.assetsMissing], text: "lacks 2 of the package's 3 files", fix: "\"touch\": true") {
            $0.redis = .success(redis { $0.missingAssets = 2 })
        },
        Case("an old signature", [.signatureOld], isHealthy: true, fix: "resign --brand \(type)") {
            $0.redis = .success(redis { ($0.isSigned, $0.isCurrent) = (false, false) })
        },
        Case("old files", [.packageOld], isHealthy: true, fix: "resign --brand \(type)") {
            $0.redis = .success(redis { $0.isCurrent = false })
        },
        Case("a retired secret", [.tokenRetired], isHealthy: true, fix: "retoken --brand \(type)") {
            $0.redis = .success(redis { $0.token = .minted(place: 1, of: 2, isOfBrand: true) })
        },
        Case("a removed secret", [.tokenUnknown], isHealthy: true, fix: "--withdrawn FILE") {
            $0.redis = .success(redis { $0.token = .unknown })
        },
        Case("a token of its own", [], isHealthy: true) { $0.redis = .success(redis { $0.token = .brought }) },
        Case("no brand", [.brandUnknown], text: "no brand has the order type", fix: "WAYBILL_BRANDS") {
            $0.brand = .unknown
        },
        Case("a brand that fails", [.brandFailing], text: "key.pem is missing", fix: "correct the file") {
            $0.brand = .failing("key.pem is missing")
        },
        Case("a certificate that ends", [.certificateEnds], isHealthy: true, fix: "resign --brand \(type)") {
            $0.brand = .loaded([20, 40].compactMap { try? certificate($0) })
        },
        Case("a certificate that ended", [.certificateEnded], text: "expired 2 days ago", fix: "replace it") {
            $0.brand = .loaded([-2].compactMap { try? certificate($0) })
        },
        Case("pictures", [.picturesPending, .picturesMissing], isHealthy: true) {
            $0.redis = .success(redis { $0.pictures = PictureFacts(named: 4, missing: 3, pending: 1) })
        },
        Case("pictures of an order without a package", [], isHealthy: true) {
            $0.redis = .success(
                redis {
                    $0.pictures = PictureFacts(named: 4, missing: 3)
                    ($0.hasPackage, $0.isUnpackaged) = (false, true)
                })
        },
        Case(
            "a picture that fails", [.picturesFailing, .picturesPending],
            text: "1 of 4 pictures cannot be fetched: a WebP",
            fix: "tries again by itself"
        ) {
            $0.redis = .success(
                redis {
                    $0.pictures = PictureFacts(named: 4, missing: 2, pending: 2, failing: 1, failures: ["a WebP"])
                })
        },
        Case("a picture that was given up", [.picturesMissing], text: "fetched: 1 of 4 pictures: a WebP", fix: "touch")
        {
            $0.redis = .success(
                redis { $0.pictures = PictureFacts(named: 4, missing: 1, givenUp: 1, failures: ["a WebP"]) })
        },
        Case(
            "receipts and labels", [.documentsFailing, .documentsPending, .documentsMissing],
            text: "1 of 4 documents cannot be fetched: refused", fix: "see waybill_own_document_failures_total"
        ) {
            $0.redis = .success(
                redis {
                    $0.documents = PictureFacts(named: 4, missing: 3, pending: 2, failing: 1, failures: ["refused"])
                })
        },
        Case("a hidden parcel", [.elementsHidden], text: "fulfillments f1 without status", fix: "have a source send") {
            $0.redis = .success(redis { $0.hiddenElements = ["fulfillments f1 without status"] })
        },
        Case("a file that is missing", [.filesOmitted], text: "$.lineItems[0].image: lamp.png", fix: "brand's assets") {
            $0.redis = .success(redis { $0.omittedFiles = ["$.lineItems[0].image: lamp.png"] })
        },
        Case(
            "a guideline", [.guidelineUnmet], isHealthy: true, fix: "trackingURL that leads to this parcel"
        ) {
            let finding = OrderGuideline.Finding(guideline: .trackingLink, path: "$.fulfillments[0]")
            $0.redis = .success(redis { $0.guidelines = [finding] })
        },
        Case(
            "a link that is none", [.membersOmitted], isHealthy: true, fix: "ingest map"
        ) {
            let source = Contributions.Summary(
                source: "/shop", owns: [], members: ["fulfillments"], keeps: ["fulfillments.f1.trackingURL"],
                latestMilliseconds: nil)
            $0.redis = .success(redis { $0.sources = [source] })
        },
        Case(
            "a change that lacks a merchant", [.changesWait], text: "they lack: $.merchant is missing",
            fix: "defaults.merchant"
        ) {
            $0.waiting = .success([waiting(600_000)])
            $0.lacks = ["$.merchant is missing"]
        },
        Case("dead letters", [.deadLetters], text: "1 open dead letter: invalid-order 3/5", fix: "show 3/5; mend") {
            $0.letters = .success([letter])
        },
        Case("many dead letters", [.deadLetters], text: "9 open dead letters: … invalid-order 3/5, ") {
            $0.letters = .success(Array(repeating: letter, count: 9))
        },
        Case("a change on its way", [.changesComing], isHealthy: true, fix: "look again in a moment") {
            $0.waiting = .success([waiting(1000)])
        },
        Case("a change that waits", [.changesWait], text: "3 changes not applied yet, from waybill.order-changes/1/40")
        {
            $0.waiting = .success([waiting(1000), waiting(600_000)].suffix(1))
        },
        Case("remains of early changes", [], isHealthy: true) {
            $0.redis = .success(
                redis { _ in
                } _: {
                    $0.early = 1
                })
        },
    ]

    @Test(arguments: states + parts) func anOrderIsJudged(_ one: Case) throws {
        var facts = try Self.facts()
        one.change(&facts)
        let verdict = OrderVerdict(facts)
        #expect(verdict.findings.map(\.code) == one.codes)
        #expect(verdict.isHealthy == one.isHealthy)
        #expect(!verdict.text.isEmpty)
        #expect(one.text.isEmpty || verdict.text.contains(one.text), "\(verdict.text)")
        let fixes = verdict.findings.map(\.fix)
        #expect(one.fix.isEmpty || fixes.contains { $0.contains(one.fix) }, "\(fixes)")
        // Both forms show any facts.
        let text = OrderFormatter.text(facts, verdict)
        #expect(text.contains(verdict.isHealthy ? "verdict  healthy: " : "verdict  \(verdict.text)"), "\(text)")
        let json = OrderFormatter.json(facts, verdict).object
        let members = [
            "deadLetters", "documents", "findings", "healthy", "lacks", "order", "pictures", "record", "redis",
            "sequences", "sources", "token", "verdict", "waiting",
        ]
        #expect(json?.members.map(\.name) == members)
    }

    @Test func everyFindingIsInTheTable() {
        let codes = Set((Self.states + Self.parts).flatMap(\.codes))
        #expect(OrderFinding.Code.allCases.filter { !codes.contains($0) } == [])
    }

    @Test func aVersionIsNamedByItsPlaceToo() {
        #expect(OrderVerdict.name(7) == "7")
        #expect(OrderVerdict.name((1_767_268_800 << 20) + 7) == "7 (1853115649228807)")
    }
}
