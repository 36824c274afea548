import Fetch
import Kafka
import Model
import Packaging
import Redis
import Store
import TestKit
import TestTraits
import Testing

@testable import Packager

/// Receipts and labels of one order, from the change to the package that Wallet gets, with a real Redis, broker and
/// HTTPS server.
@Suite(.server, .timeLimit(.minutes(3))) struct OwnDocumentTests {
    private static let due = "waybill:1:document:due:{documents}"

    @Test func anOrderIsPublishedWithoutItsDocumentsAndRepublishedWithThem() async throws {
        try await PictureFixture.run(documents: [:]) { fixture in
            let (receipt, label) = (SampleFile.pdf(text: "receipt"), SampleFile.png(seed: 4))
            try fixture.server.answer("/receipt?key=1", .init(receipt, headers: ["Content-Type": "text/html"]))
            try fixture.server.answer("/label", .init(label))
            var log = ChangeLog()
            let document = fixture.document(
                receipt: fixture.url("/receipt?key=1"), label: fixture.url("/label", host: "a.images.example.com"))
            try await fixture.processor().process([log.change("order.replaced", "o", document)])
            #expect(try await fixture.documents("o") == [nil, nil])
            #expect(try await fixture.packagerFixture.state("o")?.version.ordinal == 1)
            #expect(fixture.packagerFixture.counter("waybill_own_documents_omitted_total") == 2)
            #expect(fixture.packagerFixture.counter("waybill_files_omitted_total") == 0)
            #expect(try await fixture.due() == 0, "they are no pictures")
            try await fixture.fetching { try await fixture.documents("o").allSatisfy { $0 != nil } }

            let (_, files) = try await fixture.package("o")
            let names = try await fixture.documents("o").compactMap(\.self)
            #expect(names[0].wholeMatch(of: /document-[0-9a-f]{16}\.pdf/) != nil)
            #expect(names[1].wholeMatch(of: /document-[0-9a-f]{16}\.png/) != nil)
            #expect(files == [names[0]: receipt, names[1]: label])
            #expect(fixture.packagerFixture.counter("waybill_own_documents_fetched_total") == 2)
            let entries = Int64(receipt.count + label.count + 2 * (30 + names[0].utf8.count))
            #expect(try await fixture.bytes() == entries)
            let version = try #require(try await fixture.packagerFixture.state("o")?.version)
            let record = try await fixture.packagerFixture.read(
                fixture.packagerFixture.topics.orders, Int(version.ordinal)
            ).last
            let published = try OrderRecord.decode(try #require(record?.value))
            #expect(published.version == version, "devices are told of the version with the documents")

            // The next version has them at once; a day later nothing is asked for again.
            fixture.clock.move(by: 2 * PictureIndex.freshSeconds)
            try await fixture.processor().process([log.change("order.patched", "o", ["orderNumber": "2"])])
            #expect(try await fixture.package("o").files == files)
            #expect(try await fixture.packagerFixture.state("o")?.version == version + 1)
            #expect(try await fixture.due(Self.due) == 0)
            #expect(fixture.server.requests.count == 2)
        }
    }

    @Test func noDocumentIsSharedWithAnotherOrder() async throws {
        try await PictureFixture.run(documents: ["ignoreQuery": true]) { fixture in
            let receipts = [1, 2].map { SampleFile.pdf(text: "receipt \($0)") }
            for number in [1, 2] {
                try fixture.server.answer("/receipt?order=\(number)", .init(receipts[number - 1]))
            }
            var log = ChangeLog()
            let processor = try fixture.processor()
            try await processor.process([
                log.change("order.replaced", "o1", fixture.document(receipt: fixture.url("/receipt?order=1")))
            ])
            try await fixture.fetching { try await fixture.documents("o1") != [nil] }
            // By the brand's rules it is the same URL.
            try await processor.process([
                log.change("order.replaced", "o2", fixture.document(receipt: fixture.url("/receipt?order=2")))
            ])
            #expect(try await fixture.documents("o2") == [nil])
            #expect(try await fixture.package("o2").files.isEmpty)
            try await fixture.fetching { try await fixture.documents("o2") != [nil] }
            #expect(Array(try await fixture.package("o1").files.values) == [receipts[0]])
            #expect(Array(try await fixture.package("o2").files.values) == [receipts[1]])
            // None is an asset.
            let assets = try await fixture.packagerFixture.redis.send(RedisCommand("KEYS", "waybill:1:asset:*"))
            for key in (assets.array ?? []).compactMap(\.text) {
                let entry = try await fixture.packagerFixture.redis.send(RedisCommand("GET", .string(key))).bytes
                #expect(entry.map { String(decoding: $0.prefix(100), as: UTF8.self).contains("document-") } == false)
            }
        }
    }

    /// Signed URLs differ in every event.
    @Test func tenSignaturesOfOneURLAreOneVersion() async throws {
        try await PictureFixture.run(documents: ["ignoreQuery": ["Signature"]]) { fixture in
            let url = { (number: Int) in fixture.url("/receipt?Signature=\(number)") }
            var log = ChangeLog()
            let processor = try fixture.processor()
            for number in 1...10 {
                try await processor.process([
                    log.change("order.replaced", "o", fixture.document(receipt: url(number)))
                ])
            }
            #expect(try await fixture.packagerFixture.state("o")?.version.ordinal == 1)
            // The newest one is valid for longest.
            try fixture.server.answer("/receipt?Signature=10", .init(SampleFile.pdf(text: "receipt")))
            try await fixture.fetching { try await fixture.documents("o") != [nil] }
            #expect(fixture.server.requests.map(\.path) == ["/receipt?Signature=10"])
            try await processor.process([
                log.change("order.replaced", "o", fixture.document(receipt: url(11))),
                log.change("order.patched", "o", ["orderNumber": "1"]),
            ])
            #expect(try await fixture.packagerFixture.state("o")?.version.ordinal == 2)
            #expect(try await fixture.due(Self.due) == 0)
            // Another path is another document.
            try fixture.server.answer("/corrected?Signature=1", .init(SampleFile.pdf(text: "corrected")))
            let other = fixture.document(receipt: fixture.url("/corrected?Signature=1"))
            try await processor.process([log.change("order.replaced", "o", other)])
            #expect(try await fixture.documents("o") == [nil])
            try await fixture.fetching { try await fixture.documents("o") != [nil] }
            #expect(Array(try await fixture.package("o").files.values) == [SampleFile.pdf(text: "corrected")])
        }
    }

    @Test func aSecretGoesToItsHostAlone() async throws {
        try await PictureFixture.run(documents: ["authorization": true]) { fixture in
            let (here, there) = (PictureFixture.host, "a.images.example.com")
            for (path, target) in [("/to-other", there), ("/to-itself", here)] {
                try fixture.server.answer(path, .status(302, ["Location": fixture.url("/file", host: target)]))
            }
            try fixture.server.answer("/file", .init(SampleFile.pdf(text: "receipt")))
            var log = ChangeLog()
            for (order, url) in [
                ("direct", fixture.url("/file")), ("other", fixture.url("/file", host: there)),
                ("redirected", fixture.url("/to-other")), ("again", fixture.url("/to-itself")),
            ] {
                try await fixture.processor().process([
                    log.change("order.replaced", order, fixture.document(receipt: url))
                ])
            }
            try await fixture.fetching { try await fixture.due(Self.due) == 0 }
            let port = fixture.server.port
            let secrets = fixture.server.requests.map { request in
                "\(request.host) \(request.path) \(request.headers["authorization"] ?? "none")"
            }
            #expect(
                Set(secrets) == [
                    "\(here):\(port) /file Bearer secret", "\(there):\(port) /file none",
                    "\(here):\(port) /to-other Bearer secret", "\(here):\(port) /to-itself Bearer secret",
                    "\(here):\(port) /file none",
                ])
            for order in ["direct", "other", "redirected", "again"] {
                #expect(try await fixture.documents(order) != [nil], "\(order)")
            }
        }
    }

    @Test(arguments: [
        ("/page", PictureServer.Answer(Array("<html>".utf8), headers: ["Content-Type": "application/pdf"])),
        ("/cut", PictureServer.Answer(Array(SampleFile.pdf(text: "a").dropLast(30)))),
    ])
    func aFileThatIsNoDocumentIsGivenUp(_ path: String, _ answer: PictureServer.Answer) async throws {
        try await PictureFixture.run(documents: [:]) { fixture in
            try fixture.server.answer(path, answer)
            var log = ChangeLog()
            try await fixture.processor().process([
                log.change("order.replaced", "o", fixture.document(receipt: fixture.url("\(path)?key=secret")))
            ])
            try fixture.server.answer("\(path)?key=secret", answer)
            try await fixture.fetching { try await fixture.due(Self.due) == 0 }
            #expect(fixture.documentFailures("not_a_document") == 5)
            #expect(try await fixture.documents("o") == [nil])
            #expect(try await fixture.bytes() == 0)
        }
    }

    /// A megabyte is the most of a document, four of an order, and the brand has its own limit.
    @Test func documentsBeyondALimitAreLeftOut() async throws {
        try await PictureFixture.run(documents: ["bytes": 8000, "orderBytes": 9000, "brandBytes": 15_000]) { fixture in
            let receipts = [100, 4000, 4000, 9000, 4000].enumerated().map { index, size in
                SampleFile.pdf(text: "\(index)") + [UInt8](repeating: 0x20, count: size)
            }
            for (index, receipt) in receipts.enumerated() {
                // White space may follow the end mark, not much: it is put before it.
                try fixture.server.answer("/\(index)", .init(Self.padded(receipt)))
            }
            var log = ChangeLog()
            let processor = try fixture.processor()
            try await processor.process([
                log.change("order.replaced", "large", fixture.document(receipt: fixture.url("/3"))),
                log.change(
                    "order.replaced", "two", fixture.document(receipt: fixture.url("/1"), label: fixture.url("/2"))),
            ])
            try await fixture.fetching { try await fixture.due(Self.due) == 0 }
            #expect(fixture.documentFailures("too_large") == 5)
            #expect(try await fixture.documents("large") == [nil])
            let shown = try await fixture.documents("two").compactMap(\.self)
            #expect(shown.count == 1, "only one of the two fits")
            #expect(fixture.documentFailures("no_room") == 5)
            let full = try await fixture.bytes()
            #expect((4000...9000).contains(full))

            try await processor.process(
                ["p", "q", "r"].map { log.change("order.replaced", $0, fixture.document(receipt: fixture.url("/4"))) })
            try await fixture.fetching { try await fixture.due(Self.due) == 0 }
            #expect(try await fixture.bytes() <= 15_000)
            #expect(fixture.documentFailures("no_room") > 5, "the brand has no room for all")
            // The removal of an order makes room.
            let before = try await fixture.bytes()
            try await processor.process([log.change("order.removed", "two", nil)])
            #expect(try await fixture.bytes() == before - full)
        }
    }

    @Test func aDocumentEndsWithItsOrder() async throws {
        try await PictureFixture.run(documents: [:]) { fixture in
            try fixture.server.answer("/receipt", .init(SampleFile.pdf(text: "receipt")))
            var log = ChangeLog()
            let document = fixture.document(receipt: fixture.url("/receipt"))
            try await fixture.processor().process([log.change("order.replaced", "o", document)])
            try await fixture.fetching { try await fixture.documents("o") != [nil] }
            #expect(try await fixture.keysWithDocuments() == ["waybill:1:order:{\(try ChangeLog.key("o"))}"])
            try await fixture.processor().process([log.change("order.removed", "o", nil)])
            #expect(try await fixture.keysWithDocuments() == [])
            #expect(try await fixture.bytes() == 0)
            // One that is fetched while its order is removed is not kept.
            var slow = PictureServer.Answer(SampleFile.pdf(text: "receipt"))
            slow.delay = 1
            try fixture.server.answer("/receipt", slow)
            try await fixture.processor().process([log.change("order.replaced", "p", document)])
            let asked = fixture.server.requests.count
            try await fixture.working([fixture.worker(areDocuments: true)]) {
                try await eventually("a request") { fixture.server.requests.count > asked }
                try await fixture.processor().process([log.change("order.removed", "p", nil)])
                try await eventually("nothing is waited for") { try await fixture.due(Self.due) == 0 }
            }
            #expect(try await fixture.keysWithDocuments() == [])
            #expect(try await fixture.bytes() == 0)
        }
    }

    @Test func aDocumentGoesWithItsPackageAndComesBackWithTheNextOne() async throws {
        try await PictureFixture.run(documents: [:]) { fixture in
            var log = ChangeLog()
            try await fixture.makeOrder(with: "/receipt", &log)
            // A silent version of an order that nobody follows has no package.
            var processor = try fixture.processor()
            processor.policy = .followed
            try await processor.process([
                log.change("order.patched", "o", ["orderNumber": "2"], isSilent: true)
            ])
            #expect(try await fixture.packagerFixture.stored("o")?.isPackaged == false)
            #expect(try await fixture.keysWithDocuments() == [])
            #expect(try await fixture.bytes() == 0)
            let key = try ChangeLog.key("o")
            _ = try await fixture.repackager().package(warm: [key])
            #expect(try await fixture.documents("o") == [nil])
            try await fixture.fetching { try await fixture.documents("o") != [nil] }
            #expect(fixture.server.requests.count == 2)
        }
    }

    @Test func aSweepCountsTheDocuments() async throws {
        try await PictureFixture.run(documents: [:]) { fixture in
            var log = ChangeLog()
            try await fixture.makeOrder(with: "/receipt", &log)
            let bytes = try await fixture.bytes()
            let type = try OrderTypeIdentifier(BrandFixture.orderType)
            let sums = OwnDocumentBytes(redis: fixture.packagerFixture.redis)
            // As a crash, and packages that were dropped, leave it.
            try await sums.add(1_000_000, of: type)
            try await sums.add(5, of: try OrderTypeIdentifier("order.com.example.other"))
            try await fixture.packagerFixture.redis.completeView()
            let view = ViewEpochCache(MaterializedView(redis: fixture.packagerFixture.redis))
            _ = try await AssetSweep(view).run {}
            #expect(try await sums.all().filter { $0.value != 0 } == [type: bytes])
            #expect(try await fixture.documents("o") != [nil], "none was swept")
        }
    }

    /// Returns a PDF with the spaces at its end before its end mark.
    private static func padded(_ pdf: [UInt8]) -> [UInt8] {
        guard let mark = pdf.indices.last(where: { pdf[$0...].starts(with: "%%EOF".utf8) }) else { return pdf }
        let spaces = pdf.reversed().prefix { $0 == 0x20 }
        return Array(pdf[..<mark]) + spaces + Array("%%EOF\n".utf8)
    }
}

extension PictureFixture {
    /// Returns an order with a receipt, and a label if there is one.
    /// Makes the order `o` with a receipt, and waits until its package has it.
    func makeOrder(with receipt: String, _ log: inout ChangeLog) async throws {
        try self.server.answer(receipt, .init(SampleFile.pdf(text: "receipt")))
        try await self.processor().process([
            log.change("order.replaced", "o", self.document(receipt: self.url(receipt)))
        ])
        try await self.fetching { try await self.documents("o") != [nil] }
    }

    func document(receipt: String, label: String? = nil) -> JSON {
        let amount: JSON = ["amount": "19.99", "currency": "EUR"]
        var extra: [(String, JSON)] = [
            (
                "payment",
                [
                    "total": amount, "status": "paid",
                    "transactions": [
                        [
                            "amount": amount, "createdAt": "2025-02-01T12:00:00Z", "status": "completed",
                            "paymentMethod": ["displayName": "Card"], "transactionType": "purchase",
                            "receipt": .string(receipt),
                        ]
                    ],
                ]
            )
        ]
        if let label {
            extra.append(("returns", [["returnIdentifier": "r", "status": "open", "returnLabel": .string(label)]]))
        }
        return ChangeLog.document(extra: extra)
    }

    /// Returns the receipt, and the label if there is a return, nil for those that are left out.
    func documents(_ order: String) async throws -> [String?] {
        let json = try await self.package(order).order
        let receipts = json["payment"]?.object?["transactions"]?.array?.map { $0.object?["receipt"]?.string } ?? []
        return receipts + (json["returns"]?.array?.map { $0.object?["returnLabel"]?.string } ?? [])
    }

    /// Runs a worker for documents until something is so.
    func fetching(until isSo: () async throws -> Bool) async throws {
        try await self.working([self.worker(areDocuments: true)]) {
            try await eventually("the documents") { try await isSo() }
            try await eventually("nothing is waited for") {
                try await self.due("waybill:1:document:due:{documents}") == 0
            }
        }
    }

    /// Returns the sum of bytes that is kept of the brand's documents.
    func bytes() async throws -> Int64 {
        try await OwnDocumentBytes(redis: self.packagerFixture.redis)
            .all()[try OrderTypeIdentifier(BrandFixture.orderType)] ?? 0
    }

    func documentFailures(_ reason: String) -> Int64 {
        self.packagerFixture.counter("waybill_own_document_failures_total{reason=\"\(reason)\"}")
    }

    /// Returns the keys of all hashes that have bytes of a document.
    func keysWithDocuments() async throws -> [String] {
        let redis = self.packagerFixture.redis
        var found: [String] = []
        for key in try await redis.send(RedisCommand("KEYS", "waybill:1:*")).array?.compactMap(\.text) ?? [] {
            guard try await redis.send(RedisCommand("TYPE", .string(key))) == .status("hash") else { continue }
            let values = try await redis.send(RedisCommand("HVALS", .string(key)))
            let texts = (values.array ?? []).compactMap(\.bytes)
            if texts.contains(where: { String(decoding: $0, as: UTF8.self).contains("%PDF-") }) { found.append(key) }
        }
        return found
    }
}
