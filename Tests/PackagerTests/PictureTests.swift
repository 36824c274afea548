import Kafka
import Model
import Operations
import Packaging
import Redis
import Store
import Synchronization
import TestKit
import TestTraits
import Testing

@testable import Packager

/// Pictures by URL from the change to the package that Wallet gets, with a real Redis, broker and HTTPS server.
@Suite(.server, .timeLimit(.minutes(3))) struct PictureTests {
    @Test func anOrderIsPublishedWithoutItsPictureAndRepublishedWithIt() async throws {
        try await PictureFixture.run { fixture in
            let (lamp, logo) = (SampleFile.png(seed: 3), SampleFile.jpeg(seed: 4))
            let headers = ["ETag": "\"1\"", "Content-Type": "text/html"]
            try fixture.server.answer("/lamp?key=1", .init(lamp, headers: headers))
            try fixture.server.answer("/logo.jpg", .init(logo))
            let image = fixture.url("/lamp?key=1")
            var log = ChangeLog()
            try await fixture.processor().process([
                log.change(
                    "order.replaced", "o",
                    fixture.document(
                        [image, image, "lamp.png"], logo: fixture.url("/logo.jpg", host: "a.images.example.com")))
            ])
            #expect(try await fixture.images("o") == [nil, nil, "lamp.png"])
            #expect(try await fixture.package("o").order["merchant"]?.object?["logo"] == nil)
            #expect(try await fixture.packagerFixture.state("o")?.version.ordinal == 1)
            #expect(fixture.packagerFixture.counter("waybill_pictures_omitted_total") == 2)
            #expect(fixture.packagerFixture.counter("waybill_files_omitted_total") == 0)
            #expect(try await fixture.due() == 2)

            try await fixture.working([fixture.worker()]) {
                try await eventually("both pictures") { try await fixture.package("o").files.count == 2 }
                try await eventually("nothing is waited for") { try await fixture.due() == 0 }
            }
            let (order, files) = try await fixture.package("o")
            let images = try await fixture.images("o")
            #expect(images[0] == images[1])
            #expect(images[2] == "lamp.png")
            let name = try #require(images[0])
            #expect(name.wholeMatch(of: /picture-[0-9a-f]{16}\.png/) != nil)
            #expect(files[name] == lamp)
            let shown = try #require(order["merchant"]?.object?["logo"]?.string)
            #expect(shown.wholeMatch(of: /picture-[0-9a-f]{16}\.jpg/) != nil)
            #expect(files[shown] == logo)
            #expect(fixture.packagerFixture.counter("waybill_pictures_fetched_total") == 2)
            let version = try #require(try await fixture.packagerFixture.state("o")?.version)
            #expect((2...3).contains(version.ordinal))

            let records = try await fixture.packagerFixture.read(
                fixture.packagerFixture.topics.orders, Int(version.ordinal))
            let last = try OrderRecord.decode(try #require(records.last?.value))
            #expect(last.version == version, "devices are told of the version with the picture")
        }
    }

    /// Otherwise 100,000 orders a day would leave as many copies of one picture in Redis.
    @Test(arguments: [true, ["Expires", "Signature"]] as [JSON])
    func urlsThatDifferInIgnoredQueryParametersShareAPicture(_ ignoreQuery: JSON) async throws {
        try await PictureFixture.run(ignoreQuery: ignoreQuery) { fixture in
            let lamp = SampleFile.png(seed: 3)
            for number in 1...3 {
                try fixture.server.answer("/lamp.png?Expires=\(number)&Signature=s\(number)", .init(lamp))
            }
            let url = { (number: Int) in fixture.url("/lamp.png?Expires=\(number)&Signature=s\(number)") }
            var log = ChangeLog()
            try await fixture.processor().process([log.change("order.replaced", "o1", fixture.document([url(1)]))])
            #expect(try await fixture.images("o1") == [nil])
            try await fixture.working([fixture.worker()]) {
                try await eventually("the picture") { try await fixture.package("o1").files.count == 1 }
            }
            #expect(fixture.server.requests.map(\.path) == ["/lamp.png?Expires=1&Signature=s1"], "as the order says it")
            try await fixture.processor().process([
                log.change("order.replaced", "o2", fixture.document([url(2), url(3)])),
                log.change("order.replaced", "o3", fixture.document([url(3)])),
            ])
            let name = try #require(try await fixture.images("o1")[0])
            #expect(try await fixture.images("o2") == [name, name])
            #expect(try await fixture.package("o3").files == [name: lamp])
            #expect(fixture.server.requests.count == 1)
            // A day later it is requested again, with the signature of the latest order.
            fixture.clock.move(by: PictureIndex.freshSeconds + 1)
            try await fixture.processor().process([log.change("order.replaced", "o4", fixture.document([url(2)]))])
            try await fixture.working([fixture.worker()]) {
                try await eventually("nothing is waited for") { try await fixture.due() == 0 }
            }
            #expect(fixture.server.requests.last?.path == "/lamp.png?Expires=2&Signature=s2")
        }
    }

    @Test func aLaterOrderUsesAnAlreadyFetchedPicture() async throws {
        try await PictureFixture.run { fixture in
            try fixture.server.answer("/a", .init(SampleFile.png(seed: 1)))
            var log = ChangeLog()
            try await fixture.processor().process([
                log.change("order.replaced", "o", fixture.document([fixture.url("/a")]))
            ])
            try await fixture.working([fixture.worker()]) {
                try await eventually("the picture") { try await fixture.images("o") != [nil] }
            }
            try await fixture.processor().process([
                log.change("order.replaced", "p", fixture.document([fixture.url("/a")]))
            ])
            #expect(try await fixture.images("p") == fixture.images("o"))
            #expect(try await fixture.packagerFixture.state("p")?.version.ordinal == 1)
            #expect(try await fixture.due() == 0)
            #expect(fixture.server.requests.count == 1)
            // The bytes are stored once, however many orders show them.
            let stored = try #require(try await fixture.packagerFixture.stored("o")).assets
            #expect(stored == (try #require(try await fixture.packagerFixture.stored("p")).assets))
        }
    }

    @Test func ordersAndWorkersShareOneFetch() async throws {
        try await PictureFixture.run { fixture in
            var slow = PictureServer.Answer(SampleFile.png(seed: 1))
            slow.delay = 1
            try fixture.server.answer("/a", slow)
            var log = ChangeLog()
            let orders = (0..<120).map { "o\($0)" }
            try await fixture.processor().process(
                orders.map { log.change("order.replaced", $0, fixture.document([fixture.url("/a")])) })
            #expect(try await fixture.due() == 1)
            try await fixture.working([fixture.worker(), fixture.worker(), fixture.worker()]) {
                try await eventually("a request") { !fixture.server.requests.isEmpty }
                // This order arrives while the picture is being fetched.
                try await fixture.processor().process([
                    log.change("order.replaced", "late", fixture.document([fixture.url("/a")]))
                ])
                try await eventually("nothing is waited for") { try await fixture.due() == 0 }
            }
            for order in orders + ["late"] {
                #expect(
                    try await fixture.packagerFixture.stored(order)?.assets.count == 2, "\(order): logo and picture")
            }
            #expect(fixture.server.requests.count == 1)
        }
    }

    @Test func anotherWorkerFinishesThePictureJobOfAKilledWorker() async throws {
        try await PictureFixture.run { fixture in
            try fixture.server.answer("/a", .init(SampleFile.png(seed: 1)))
            var log = ChangeLog()
            try await fixture.processor().process([
                log.change("order.replaced", "o", fixture.document([fixture.url("/a")]))
            ])
            // A worker that was killed before it fetched has the picture until its lease ends.
            let claimed = try await fixture.pictures.claim(8, lease: .seconds(2)).claims
            #expect(claimed.count == 1)
            #expect(try await fixture.pictures.claim(8, lease: .seconds(60)).claims.isEmpty)
            // Another worker is killed after it fetched and before it packaged.
            let failures = Mutex(0)
            let dying = try fixture.worker { _ in
                failures.withLock { $0 += 1 }
                throw RetriableFailure(description: "killed", origin: FailureOrigin(.redis, .everything))
            }
            try await fixture.working([dying]) {
                try await eventually("a failure") { failures.withLock { $0 } > 0 }
            }
            #expect(try await fixture.images("o") == [nil])
            #expect(try await fixture.due() == 1)
            try await fixture.working([fixture.worker()]) {
                try await eventually("the picture") { try await fixture.images("o") != [nil] }
                try await eventually("nothing is waited for") { try await fixture.due() == 0 }
            }
            #expect(fixture.server.requests.count == 1, "the second worker found the picture")
        }
    }

    @Test func noRequestIsSentToAHostThatTheBrandDoesNotList() async throws {
        try await PictureFixture.run { fixture in
            let url = fixture.url("/a", host: "other.example.com")
            try fixture.server.answer("/a", .init(SampleFile.png(seed: 1)))
            var log = ChangeLog()
            try await fixture.processor().process([log.change("order.replaced", "o", fixture.document([url]))])
            #expect(try await fixture.images("o") == [nil])
            #expect(try await fixture.due() == 0)
            #expect(fixture.packagerFixture.counter("waybill_files_omitted_total") == 1)

            // Nor is it asked through a redirect from a host that the brand lists.
            try fixture.server.answer("/away", .status(302, ["Location": url]))
            try await fixture.processor().process([
                log.change("order.replaced", "p", fixture.document([fixture.url("/away")]))
            ])
            try await fixture.working([fixture.worker()]) {
                try await eventually("given up") { try await fixture.due() == 0 }
            }
            #expect(fixture.server.requests.allSatisfy { $0.path == "/away" })
            #expect(!fixture.server.requests.isEmpty)
            #expect(try await fixture.images("p") == [nil])
            #expect(fixture.failures("host_not_allowed") == 5)
        }
    }

    @Test func aHostThatResolvesToADisallowedAddressIsNotContacted() async throws {
        try await PictureFixture.run { fixture in
            try fixture.server.answer("/a", .init(SampleFile.png(seed: 1)))
            var log = ChangeLog()
            try await fixture.processor().process([
                log.change("order.replaced", "o", fixture.document([fixture.url("/a")]))
            ])
            try await fixture.working([fixture.worker(address: "127.0.0.2")]) {
                try await eventually("given up") { try await fixture.due() == 0 }
            }
            #expect(fixture.failures("address_not_allowed") == 5)
            #expect(fixture.server.requests.isEmpty)
            #expect(try await fixture.images("o") == [nil])
        }
    }

    @Test(arguments: [
        ("/none", PictureServer.Answer.status(404), "not_found"),
        ("/page", PictureServer.Answer(Array("<html>".utf8), headers: ["Content-Type": "image/png"]), "not_a_picture"),
        ("/cut", PictureServer.Answer(Array(SampleFile.png(seed: 1).prefix(500))), "not_a_picture"),
        ("/wide", PictureServer.Answer(SampleFile.wide), "not_a_picture"),
        ("/large", PictureServer.Answer([UInt8](repeating: 0xFF, count: 1_000_001)), "too_large"),
    ])
    func anInvalidPictureIsGivenUp(
        _ path: String, _ answer: PictureServer.Answer, _ reason: String
    ) async throws {
        try await PictureFixture.run { fixture in
            try fixture.server.answer(path, answer)
            var log = ChangeLog()
            let document = fixture.document([fixture.url(path)])
            try await fixture.processor().process([log.change("order.replaced", "o", document)])
            try await fixture.working([fixture.worker()]) {
                try await eventually("given up") { try await fixture.due() == 0 }
            }
            #expect(fixture.failures(reason) == 5)
            #expect(fixture.server.requests.count == 5)
            #expect(try await fixture.images("o") == [nil])

            // An order that names it while it rests does not wait for it.
            try await fixture.processor().process([log.change("order.replaced", "p", document)])
            #expect(try await fixture.due() == 0)
            // Later it gets another chance.
            try fixture.server.answer(path, .init(SampleFile.png(seed: 1)))
            fixture.clock.move(by: 25 * 3600)
            try await fixture.processor().process([log.change("order.replaced", "q", document)])
            try await fixture.working([fixture.worker()]) {
                try await eventually("the picture") { try await fixture.images("q") != [nil] }
            }
        }
    }

    @Test func aFetchIsRetriedWhileTheServerReturns503() async throws {
        try await PictureFixture.run { fixture in
            try fixture.server.answer("/a", .status(503))
            var log = ChangeLog()
            try await fixture.processor().process([
                log.change("order.replaced", "o", fixture.document([fixture.url("/a")]))
            ])
            try await fixture.working([fixture.worker()]) {
                try await eventually("three attempts") { fixture.server.requests.count >= 3 }
                try fixture.server.answer("/a", .init(SampleFile.png(seed: 1)))
                try await eventually("the picture") { try await fixture.images("o") != [nil] }
            }
        }
    }

    @Test func aPictureIsRevalidatedAfterADay() async throws {
        try await PictureFixture.run { fixture in
            try fixture.server.answer("/a", .init(SampleFile.png(seed: 1), headers: ["ETag": "\"1\""]))
            var log = ChangeLog()
            let url = fixture.url("/a")
            try await fixture.processor().process([log.change("order.replaced", "o", fixture.document([url]))])
            try await fixture.working([fixture.worker()]) {
                try await eventually("the picture") { try await fixture.images("o") != [nil] }
                try await eventually("nothing is waited for") { try await fixture.due() == 0 }
                fixture.clock.move(by: 23 * 3600)
                try await fixture.processor().process([log.change("order.replaced", "p", fixture.document([url]))])
                #expect(try await fixture.due() == 0)

                fixture.clock.move(by: 2 * 3600)
                try await fixture.processor().process([log.change("order.replaced", "q", fixture.document([url]))])
                #expect(try await fixture.images("q") != [nil], "it is shown meanwhile")
                try await eventually("asked") { fixture.server.requests.count == 2 }
                try await eventually("nothing is waited for") { try await fixture.due() == 0 }
                #expect(fixture.server.requests.last?.condition == "\"1\"")
                #expect(
                    try await fixture.packagerFixture.state("q")?.version.ordinal == 1,
                    "what did not change is nothing new")

                let other = SampleFile.png(seed: 2)
                try fixture.server.answer("/a", .init(other, headers: ["ETag": "\"2\""]))
                fixture.clock.move(by: 25 * 3600)
                try await fixture.processor().process([log.change("order.patched", "q", ["orderNumber": "2"])])
                try await eventually("the new picture") {
                    try await fixture.package("q").files.values.contains(other)
                }
                #expect(try await fixture.packagerFixture.state("q")?.version.ordinal == 3)
            }
        }
    }

    @Test func aPictureMissingFromRedisIsFetchedAgainUnconditionally() async throws {
        try await PictureFixture.run { fixture in
            try fixture.server.answer("/a", .init(SampleFile.png(seed: 1), headers: ["ETag": "\"1\""]))
            var log = ChangeLog()
            let document = fixture.document([fixture.url("/a")])
            try await fixture.processor().process([log.change("order.replaced", "o", document)])
            try await fixture.working([fixture.worker()]) {
                try await eventually("the picture") { try await fixture.images("o") != [nil] }
                try await eventually("nothing is waited for") { try await fixture.due() == 0 }
                for digest in try #require(try await fixture.packagerFixture.stored("o")).assets {
                    _ = try await fixture.packagerFixture.redis.send(
                        RedisCommand("DEL", .string("waybill:1:asset:{\(digest)}")))
                }
                try await fixture.processor().process([log.change("order.replaced", "p", document)])
                try await eventually("the picture again") { try await fixture.images("p") != [nil] }
                #expect(fixture.server.requests.last?.condition == "")
            }
        }
    }

    @Test func aPictureFetchedBeforeItsVersionWaitsForIt() async throws {
        try await PictureFixture.run { fixture in
            try fixture.server.answer("/a", .init(SampleFile.png(seed: 1)))
            // A packager does this first; the picture arrives before it writes.
            let key = PictureKey(orderType: try OrderTypeIdentifier(BrandFixture.orderType), url: fixture.url("/a"))
            let waiting = Pictures.Waiting(
                order: try ChangeLog.key("o"), version: OrderState.firstVersion(nowEpochSeconds: ChangeLog.noon),
                sinceEpochSeconds: fixture.clock.now)
            #expect(try await fixture.pictures.addWaiting([key: [waiting]]) == 0)
            try await fixture.working([fixture.worker()]) {
                try await eventually("fetched") {
                    fixture.packagerFixture.counter("waybill_pictures_fetched_total") == 1
                }
                var log = ChangeLog()
                var processor = try fixture.processor()
                processor.pictureIndex = nil
                try await processor.process([log.change("order.replaced", "o", fixture.document([key.url]))])
                try await eventually("the picture") { try await fixture.images("o") != [nil] }
            }
        }
    }

    @Test func aPictureStopsWaitingForAVersionThatNeverArrives() async throws {
        try await PictureFixture.run { fixture in
            try fixture.server.answer("/a", .init(SampleFile.png(seed: 1)))
            let key = PictureKey(orderType: try OrderTypeIdentifier(BrandFixture.orderType), url: fixture.url("/a"))
            let waiting = Pictures.Waiting(
                order: try ChangeLog.key("never"), version: 1, sinceEpochSeconds: fixture.clock.now)
            _ = try await fixture.pictures.addWaiting([key: [waiting]])
            fixture.clock.move(by: PictureFetchJob.patienceSeconds + 1)
            try await fixture.working([fixture.worker()]) {
                try await eventually("nothing is waited for") { try await fixture.due() == 0 }
            }
            #expect(try await fixture.packagerFixture.state("never") == nil)
        }
    }

    /// A picture whose host was refused waits for hours; the brand's file allows the host now.
    @Test func aWaitingPictureIsFetchedWhenItsBrandAllowsOtherHosts() async throws {
        try await PictureFixture.run { fixture in
            let url = fixture.url("/lamp.png")
            try fixture.server.answer("/lamp.png", .init(SampleFile.png(seed: 1)))
            var log = ChangeLog()
            try await fixture.processor().process([log.change("order.replaced", "o", fixture.document([url]))])
            let later = try await fixture.pictures.claim(1, lease: .seconds(3600))
            #expect(later.claims.map(\.key.url) == [url])
            let type = try OrderTypeIdentifier(BrandFixture.orderType)
            let other = try OrderTypeIdentifier("order.com.example.other")
            try await fixture.pictures.hasten(of: [other], waitingFor: .seconds(60))
            #expect(try await fixture.pictures.claim(1, lease: .seconds(60)).claims.isEmpty, "of another brand")
            let allows = Mutex(false)
            var worker = try fixture.worker()
            worker.packagers = { [packager = fixture.packager] in
                allows.withLock { $0 } ? [type: packager] : [:]
            }
            try await fixture.working([worker]) {
                try await eventually("the picture") {
                    allows.withLock { $0.toggle() }
                    return try await fixture.images("o") != [nil]
                }
            }
        }
    }
}

extension PictureFixture {
    /// Returns the number of failures to get a picture for one reason.
    func failures(_ reason: String) -> Int64 {
        self.packagerFixture.counter("waybill_picture_failures_total{reason=\"\(reason)\"}")
    }
}

extension SampleFile {
    /// A PNG that claims far too many pixels: a small one with a changed header.
    static var wide: [UInt8] {
        var png = Self.png(seed: 1)
        png.replaceSubrange(16..<20, with: [0, 0, 0x40, 0])
        return png
    }
}
