import Kafka
import Model
import Operations
import Redis
import Store
import Synchronization
import TestKit
import TestTraits
import Testing

@testable import Packager

/// Pictures by URL from the change to the package that Wallet gets, with a real Redis, broker and HTTPS server.
@Suite(.server, .timeLimit(.minutes(3))) struct PictureTests {
    @Test func anOrderGoesOutWithoutItsPictureAndAgainWithIt() async throws {
        try await PictureFixture.run { scene in
            let (lamp, logo) = (SampleFile.png(seed: 3), SampleFile.jpeg(seed: 4))
            let headers = ["ETag": "\"1\"", "Content-Type": "text/html"]
            try scene.server.answer("/lamp?key=1", .init(lamp, headers: headers))
            try scene.server.answer("/logo.jpg", .init(logo))
            let image = scene.url("/lamp?key=1")
            var log = ChangeLog()
            try await scene.processor().process([
                log.change(
                    "order.replaced", "o",
                    scene.document(
                        [image, image, "lamp.png"], logo: scene.url("/logo.jpg", host: "a.images.example.com")))
            ])
            #expect(try await scene.images("o") == [nil, nil, "lamp.png"])
            #expect(try await scene.package("o").order["merchant"]?.object?["logo"] == nil)
            #expect(try await scene.scene.state("o")?.version.ordinal == 1)
            #expect(scene.scene.counter("waybill_pictures_omitted_total") == 2)
            #expect(scene.scene.counter("waybill_files_omitted_total") == 0)
            #expect(try await scene.due() == 2)

            try await scene.working([scene.worker()]) {
                try await eventually("both pictures") { try await scene.package("o").files.count == 2 }
                try await eventually("nothing is waited for") { try await scene.due() == 0 }
            }
            let (order, files) = try await scene.package("o")
            let images = try await scene.images("o")
            #expect(images[0] == images[1])
            #expect(images[2] == "lamp.png")
            let name = try #require(images[0])
            #expect(name.wholeMatch(of: /picture-[0-9a-f]{16}\.png/) != nil)
            #expect(files[name] == lamp)
            let shown = try #require(order["merchant"]?.object?["logo"]?.string)
            #expect(shown.wholeMatch(of: /picture-[0-9a-f]{16}\.jpg/) != nil)
            #expect(files[shown] == logo)
            #expect(scene.scene.counter("waybill_pictures_fetched_total") == 2)
            let version = try #require(try await scene.scene.state("o")?.version)
            #expect((2...3).contains(version.ordinal))

            let records = try await scene.scene.read(scene.scene.topics.orders, Int(version.ordinal))
            let last = try OrderRecord.decode(try #require(records.last?.value))
            #expect(last.version == version, "devices are told of the version with the picture")
        }
    }

    /// 100,000 orders a day would leave as many copies of one picture in Redis.
    @Test(arguments: [true, ["Expires", "Signature"]] as [JSON])
    func underAnotherSignatureItIsTheSamePicture(_ ignoreQuery: JSON) async throws {
        try await PictureFixture.run(ignoreQuery: ignoreQuery) { scene in
            let lamp = SampleFile.png(seed: 3)
            for number in 1...3 {
                try scene.server.answer("/lamp.png?Expires=\(number)&Signature=s\(number)", .init(lamp))
            }
            let url = { (number: Int) in scene.url("/lamp.png?Expires=\(number)&Signature=s\(number)") }
            var log = ChangeLog()
            try await scene.processor().process([log.change("order.replaced", "o1", scene.document([url(1)]))])
            #expect(try await scene.images("o1") == [nil])
            try await scene.working([scene.worker()]) {
                try await eventually("the picture") { try await scene.package("o1").files.count == 1 }
            }
            #expect(scene.server.requests.map(\.path) == ["/lamp.png?Expires=1&Signature=s1"], "as the order says it")
            try await scene.processor().process([
                log.change("order.replaced", "o2", scene.document([url(2), url(3)])),
                log.change("order.replaced", "o3", scene.document([url(3)])),
            ])
            let name = try #require(try await scene.images("o1")[0])
            #expect(try await scene.images("o2") == [name, name])
            #expect(try await scene.package("o3").files == [name: lamp])
            #expect(scene.server.requests.count == 1)
            // A day later it is asked for once more, by the signature of the order that came last.
            scene.clock.move(by: PictureIndex.freshSeconds + 1)
            try await scene.processor().process([log.change("order.replaced", "o4", scene.document([url(2)]))])
            try await scene.working([scene.worker()]) {
                try await eventually("nothing is waited for") { try await scene.due() == 0 }
            }
            #expect(scene.server.requests.last?.path == "/lamp.png?Expires=2&Signature=s2")
        }
    }

    @Test func anOrderThatComesLaterHasThePictureAtOnce() async throws {
        try await PictureFixture.run { scene in
            try scene.server.answer("/a", .init(SampleFile.png(seed: 1)))
            var log = ChangeLog()
            try await scene.processor().process([log.change("order.replaced", "o", scene.document([scene.url("/a")]))])
            try await scene.working([scene.worker()]) {
                try await eventually("the picture") { try await scene.images("o") != [nil] }
            }
            try await scene.processor().process([log.change("order.replaced", "p", scene.document([scene.url("/a")]))])
            #expect(try await scene.images("p") == scene.images("o"))
            #expect(try await scene.scene.state("p")?.version.ordinal == 1)
            #expect(try await scene.due() == 0)
            #expect(scene.server.requests.count == 1)
            // The bytes stand once, however many orders show them.
            let stored = try #require(try await scene.scene.stored("o")).assets
            #expect(stored == (try #require(try await scene.scene.stored("p")).assets))
        }
    }

    @Test func ordersAndWorkersShareOneFetch() async throws {
        try await PictureFixture.run { scene in
            var slow = PictureServer.Answer(SampleFile.png(seed: 1))
            slow.delay = 1
            try scene.server.answer("/a", slow)
            var log = ChangeLog()
            let orders = (0..<120).map { "o\($0)" }
            try await scene.processor().process(
                orders.map { log.change("order.replaced", $0, scene.document([scene.url("/a")])) })
            #expect(try await scene.due() == 1)
            try await scene.working([scene.worker(), scene.worker(), scene.worker()]) {
                try await eventually("a request") { !scene.server.requests.isEmpty }
                // Comes while the picture is on its way.
                try await scene.processor().process([
                    log.change("order.replaced", "late", scene.document([scene.url("/a")]))
                ])
                try await eventually("nothing is waited for") { try await scene.due() == 0 }
            }
            for order in orders + ["late"] {
                #expect(try await scene.scene.stored(order)?.assets.count == 2, "\(order): logo and picture")
            }
            #expect(scene.server.requests.count == 1)
        }
    }

    @Test func aWorkerThatDiesLeavesItsWorkToTheNext() async throws {
        try await PictureFixture.run { scene in
            try scene.server.answer("/a", .init(SampleFile.png(seed: 1)))
            var log = ChangeLog()
            try await scene.processor().process([log.change("order.replaced", "o", scene.document([scene.url("/a")]))])
            // Killed before it fetched: it has the picture until its lease ends.
            let claimed = try await scene.pictures.claim(8, lease: .seconds(2)).claims
            #expect(claimed.count == 1)
            #expect(try await scene.pictures.claim(8, lease: .seconds(60)).claims.isEmpty)
            // Killed after it fetched and before it packaged.
            let failures = Mutex(0)
            let dying = try scene.worker { _ in
                failures.withLock { $0 += 1 }
                throw RetriableFailure(description: "killed")
            }
            try await scene.working([dying]) {
                try await eventually("a failure") { failures.withLock { $0 } > 0 }
            }
            #expect(try await scene.images("o") == [nil])
            #expect(try await scene.due() == 1)
            try await scene.working([scene.worker()]) {
                try await eventually("the picture") { try await scene.images("o") != [nil] }
                try await eventually("nothing is waited for") { try await scene.due() == 0 }
            }
            #expect(scene.server.requests.count == 1, "the second worker found the picture")
        }
    }

    @Test func aHostThatTheBrandDoesNotListIsNeverAsked() async throws {
        try await PictureFixture.run { scene in
            let url = scene.url("/a", host: "other.example.com")
            try scene.server.answer("/a", .init(SampleFile.png(seed: 1)))
            var log = ChangeLog()
            try await scene.processor().process([log.change("order.replaced", "o", scene.document([url]))])
            #expect(try await scene.images("o") == [nil])
            #expect(try await scene.due() == 0)
            #expect(scene.scene.counter("waybill_files_omitted_total") == 1)

            // Not by way of a redirect either, and not by one that a name of the brand leads to.
            try scene.server.answer("/away", .status(302, ["Location": url]))
            try await scene.processor().process([
                log.change("order.replaced", "p", scene.document([scene.url("/away")]))
            ])
            try await scene.working([scene.worker()]) {
                try await eventually("given up") { try await scene.due() == 0 }
            }
            #expect(scene.server.requests.allSatisfy { $0.path == "/away" })
            #expect(!scene.server.requests.isEmpty)
            #expect(try await scene.images("p") == [nil])
            #expect(scene.failures("host_not_allowed") == 5)
        }
    }

    @Test func aNameThatLeadsInsideIsNotConnectedTo() async throws {
        try await PictureFixture.run { scene in
            try scene.server.answer("/a", .init(SampleFile.png(seed: 1)))
            var log = ChangeLog()
            try await scene.processor().process([log.change("order.replaced", "o", scene.document([scene.url("/a")]))])
            try await scene.working([scene.worker(address: "127.0.0.2")]) {
                try await eventually("given up") { try await scene.due() == 0 }
            }
            #expect(scene.failures("address_not_allowed") == 5)
            #expect(scene.server.requests.isEmpty)
            #expect(try await scene.images("o") == [nil])
        }
    }

    @Test(arguments: [
        ("/none", PictureServer.Answer.status(404), "not_found"),
        ("/page", PictureServer.Answer(Array("<html>".utf8), headers: ["Content-Type": "image/png"]), "not_a_picture"),
        ("/cut", PictureServer.Answer(Array(SampleFile.png(seed: 1).prefix(500))), "not_a_picture"),
        ("/wide", PictureServer.Answer(SampleFile.wide), "not_a_picture"),
        ("/large", PictureServer.Answer([UInt8](repeating: 0xFF, count: 1_000_001)), "too_large"),
    ])
    func whatIsNoPictureIsGivenUpAndRests(
        _ path: String, _ answer: PictureServer.Answer, _ reason: String
    ) async throws {
        try await PictureFixture.run { scene in
            try scene.server.answer(path, answer)
            var log = ChangeLog()
            let document = scene.document([scene.url(path)])
            try await scene.processor().process([log.change("order.replaced", "o", document)])
            try await scene.working([scene.worker()]) {
                try await eventually("given up") { try await scene.due() == 0 }
            }
            #expect(scene.failures(reason) == 5)
            #expect(scene.server.requests.count == 5)
            #expect(try await scene.images("o") == [nil])

            // Whoever names it while it rests does not wait for it.
            try await scene.processor().process([log.change("order.replaced", "p", document)])
            #expect(try await scene.due() == 0)
            // Later it gets another chance.
            try scene.server.answer(path, .init(SampleFile.png(seed: 1)))
            scene.clock.move(by: 25 * 3600)
            try await scene.processor().process([log.change("order.replaced", "q", document)])
            try await scene.working([scene.worker()]) {
                try await eventually("the picture") { try await scene.images("q") != [nil] }
            }
        }
    }

    @Test func aServerThatIsAwayForAWhileIsAskedAgain() async throws {
        try await PictureFixture.run { scene in
            try scene.server.answer("/a", .status(503))
            var log = ChangeLog()
            try await scene.processor().process([log.change("order.replaced", "o", scene.document([scene.url("/a")]))])
            try await scene.working([scene.worker()]) {
                try await eventually("three attempts") { scene.server.requests.count >= 3 }
                try scene.server.answer("/a", .init(SampleFile.png(seed: 1)))
                try await eventually("the picture") { try await scene.images("o") != [nil] }
            }
        }
    }

    @Test func aPictureIsAskedForAgainAfterADay() async throws {
        try await PictureFixture.run { scene in
            try scene.server.answer("/a", .init(SampleFile.png(seed: 1), headers: ["ETag": "\"1\""]))
            var log = ChangeLog()
            let url = scene.url("/a")
            try await scene.processor().process([log.change("order.replaced", "o", scene.document([url]))])
            try await scene.working([scene.worker()]) {
                try await eventually("the picture") { try await scene.images("o") != [nil] }
                try await eventually("nothing is waited for") { try await scene.due() == 0 }
                scene.clock.move(by: 23 * 3600)
                try await scene.processor().process([log.change("order.replaced", "p", scene.document([url]))])
                #expect(try await scene.due() == 0)

                scene.clock.move(by: 2 * 3600)
                try await scene.processor().process([log.change("order.replaced", "q", scene.document([url]))])
                #expect(try await scene.images("q") != [nil], "it is shown meanwhile")
                try await eventually("asked") { scene.server.requests.count == 2 }
                try await eventually("nothing is waited for") { try await scene.due() == 0 }
                #expect(scene.server.requests.last?.condition == "\"1\"")
                #expect(try await scene.scene.state("q")?.version.ordinal == 1, "what did not change is nothing new")

                let other = SampleFile.png(seed: 2)
                try scene.server.answer("/a", .init(other, headers: ["ETag": "\"2\""]))
                scene.clock.move(by: 25 * 3600)
                try await scene.processor().process([log.change("order.patched", "q", ["orderNumber": "2"])])
                try await eventually("the new picture") {
                    try await scene.package("q").files.values.contains(other)
                }
                #expect(try await scene.scene.state("q")?.version.ordinal == 3)
            }
        }
    }

    @Test func aPictureWhoseBytesAreGoneIsFetchedAgain() async throws {
        try await PictureFixture.run { scene in
            try scene.server.answer("/a", .init(SampleFile.png(seed: 1), headers: ["ETag": "\"1\""]))
            var log = ChangeLog()
            let document = scene.document([scene.url("/a")])
            try await scene.processor().process([log.change("order.replaced", "o", document)])
            try await scene.working([scene.worker()]) {
                try await eventually("the picture") { try await scene.images("o") != [nil] }
                try await eventually("nothing is waited for") { try await scene.due() == 0 }
                for digest in try #require(try await scene.scene.stored("o")).assets {
                    _ = try await scene.scene.redis.send(RedisCommand("DEL", .string("waybill:asset:{\(digest)}")))
                }
                try await scene.processor().process([log.change("order.replaced", "p", document)])
                try await eventually("the picture again") { try await scene.images("p") != [nil] }
                #expect(scene.server.requests.last?.condition == "")
            }
        }
    }

    @Test func whoIsFasterThanTheVersionWaitsForIt() async throws {
        try await PictureFixture.run { scene in
            try scene.server.answer("/a", .init(SampleFile.png(seed: 1)))
            // A packager does this first; the picture arrives before it writes.
            let key = PictureKey(orderType: try OrderTypeIdentifier(BrandFixture.orderType), url: scene.url("/a"))
            let waiting = Pictures.Waiting(
                order: try ChangeLog.key("o"), version: OrderState.firstVersion(nowEpochSeconds: ChangeLog.noon),
                sinceEpochSeconds: scene.clock.now)
            #expect(try await scene.pictures.addWaiting([key: [waiting]]) == 0)
            try await scene.working([scene.worker()]) {
                try await eventually("fetched") { scene.scene.counter("waybill_pictures_fetched_total") == 1 }
                var log = ChangeLog()
                var processor = try scene.processor()
                processor.pictureIndex = nil
                try await processor.process([log.change("order.replaced", "o", scene.document([key.url]))])
                try await eventually("the picture") { try await scene.images("o") != [nil] }
            }
        }
    }

    @Test func aVersionThatNeverComesIsNotWaitedForForEver() async throws {
        try await PictureFixture.run { scene in
            try scene.server.answer("/a", .init(SampleFile.png(seed: 1)))
            let key = PictureKey(orderType: try OrderTypeIdentifier(BrandFixture.orderType), url: scene.url("/a"))
            let waiting = Pictures.Waiting(
                order: try ChangeLog.key("never"), version: 1, sinceEpochSeconds: scene.clock.now)
            _ = try await scene.pictures.addWaiting([key: [waiting]])
            scene.clock.move(by: PictureFetchJob.patienceSeconds + 1)
            try await scene.working([scene.worker()]) {
                try await eventually("nothing is waited for") { try await scene.due() == 0 }
            }
            #expect(try await scene.scene.state("never") == nil)
        }
    }
}

extension PictureFixture {
    /// The number of failures to get a picture for one reason.
    func failures(_ reason: String) -> Int64 {
        self.scene.counter("waybill_picture_failures_total{reason=\"\(reason)\"}")
    }
}

extension SampleFile {
    /// A PNG that says it has more pixels than anybody needs: the header of a small one, changed.
    static var wide: [UInt8] {
        var png = Self.png(seed: 1)
        png.replaceSubrange(16..<20, with: [0, 0, 0x40, 0])
        return png
    }
}
