import FoundationEssentials
import Model
import Packaging
import PictureFitting
import PictureSamples
import Redis
import Store
import Synchronization
import TestKit
import TestTraits
import Testing

@testable import Packager

/// Pictures by URL that are made right, from the change to the package that Wallet gets.
@Suite(.server, .timeLimit(.minutes(3))) struct PictureFitJobTests {
    @Test func aTransparentWebPOf2000PixelsIsASmallOpaqueSquareInThePackage() async throws {
        try await PictureFixture.run(fit: true) { fixture in
            try fixture.server.answer("/lamp.webp", .init(Drawing(2000, 1500, isLogo: true).webp()))
            try fixture.server.answer(
                "/large.jpg", .init(PictureSample.withNotes(Drawing(600, 600).jpeg(), padding: 3_000_000)))
            var log = ChangeLog()
            let document = fixture.document([fixture.url("/lamp.webp"), fixture.url("/large.jpg")])
            try await fixture.processor().process([log.change("order.replaced", "o", document)])
            try await fixture.working([fixture.worker()]) {
                try await eventually("both pictures") { try await fixture.package("o").files.count == 2 }
            }
            for (name, file) in try await fixture.package("o").files {
                let picture = try Picture.inspect(file)
                #expect((picture.width, picture.height) == (300, 300), "\(name)")
                #expect(name.hasSuffix(picture.format.suffix))
                #expect(file.count <= PictureFit.sizeLimit)
            }
            #expect(fixture.server.requests.first?.headers["accept"] == "image/png, image/jpeg, image/webp")
        }
    }

    /// A device fetches the whole package with each version.
    @Test func aPackageOfTwoCataloguePicturesIsATenthAsLarge() async throws {
        let lamp = Drawing(2000, 1500).jpeg()
        let sizes = Mutex<[Int]>([])
        for fit in [false, true] {
            try await PictureFixture.run(fit: fit) { fixture in
                for path in ["/a", "/b"] { try fixture.server.answer(path, .init(lamp)) }
                var log = ChangeLog()
                let document = fixture.document([fixture.url("/a"), fixture.url("/b")])
                try await fixture.processor().process([log.change("order.replaced", "o", document)])
                try await fixture.working([fixture.worker()]) {
                    try await eventually("both pictures") { try await fixture.package("o").files.count == 2 }
                }
                let redis = fixture.packagerFixture.redis
                let archive = try #require(try await StoredArchive.read(try ChangeLog.key("o"), from: redis))
                sizes.withLock { $0.append(archive.bytes.count) }
            }
        }
        let (before, after) = sizes.withLock { ($0[0], $0[1]) }
        #expect(after * 10 < before, "\(before) bytes before, \(after) after")
    }

    /// Its place is known once the version is written, of which a worker may hear before.
    @Test func aTrackingLogoStaysTransparent() async throws {
        try await PictureFixture.run(fit: true) { fixture in
            try fixture.server.answer("/logo.png", .init(Drawing(600, 200, isLogo: true).png(.colourAlpha)))
            var log = ChangeLog()
            let url = fixture.url("/logo.png")
            let key = PictureKey(orderType: try OrderTypeIdentifier(BrandFixture.orderType), url: url)
            let waiting = Pictures.Waiting(
                order: try ChangeLog.key("o"), version: 1, sinceEpochSeconds: fixture.clock.now)
            let noted = Int64(Date().timeIntervalSince1970 * 1000)
            #expect(try await fixture.pictures.addWaiting([key: [waiting]]) == 0)
            try await fixture.working([fixture.worker()]) {
                try await eventually("a look at it, and put off by a second") {
                    let times = try await fixture.packagerFixture.redis.send(
                        RedisCommand("ZRANGE", "waybill:1:picture:due:{pictures}", "0", "0", "WITHSCORES"))
                    let time = times.array?.last?.text.flatMap(Int64.init) ?? 0
                    return (1000..<30_000).contains(time - noted)
                }
                #expect(fixture.server.requests.isEmpty)
                let change = log.change("order.replaced", "o", fixture.document([], trackingLogo: url))
                try await fixture.processor().process([change])
                try await eventually("the logo") { try await fixture.package("o").files.count == 1 }
            }
            let logo = try #require(try await fixture.package("o").files.first?.value)
            let picture = try Picture.inspect(logo)
            #expect((picture.width, picture.height) == (300, 100))
            // The colour type of the header: red, green, blue and alpha. Source: ISO/IEC 15948 §11.2.2
            #expect(logo[25] == 6)
        }
    }

    /// Otherwise an upgrade would make a version of each order.
    @Test func aStandingPictureStaysAsItIsUntilItsSourceChanges() async throws {
        try await PictureFixture.run { fixture in
            let lamp = Drawing(400, 400).png(.colour)
            try fixture.server.answer("/lamp", .init(lamp))
            var log = ChangeLog()
            let document = fixture.document([fixture.url("/lamp")])
            try await fixture.processor().process([log.change("order.replaced", "o", document)])
            try await fixture.working([fixture.worker()]) {
                try await eventually("the picture") { try await fixture.package("o").files.count == 1 }
            }
            let before = try await fixture.packagerFixture.state("o")?.version
            let files = try await fixture.package("o").files
            #expect(files.values.first == lamp)

            let fitting = try fixture.fitting()
            fixture.clock.move(by: PictureIndex.freshSeconds + 1)
            try await fitting.processor().process([log.change("order.replaced", "p", document)])
            try await fitting.working([fitting.worker()]) {
                try await eventually("nothing is waited for") { try await fixture.due() == 0 }
            }
            #expect(fixture.server.requests.count == 2)
            #expect(try await fixture.package("o").files == files)
            #expect(try await fixture.package("p").files == files)
            #expect(try await fixture.packagerFixture.state("o")?.version == before)

            try fixture.server.answer("/lamp", .init(Drawing(500, 500).png(.colour)))
            fixture.clock.move(by: PictureIndex.freshSeconds + 1)
            try await fitting.processor().process([log.change("order.replaced", "q", document)])
            try await fitting.working([fitting.worker()]) {
                try await eventually("nothing is waited for") { try await fixture.due() == 0 }
            }
            let new = try #require(try await fixture.package("q").files.first?.value)
            #expect(try Picture.inspect(new).width == 300)
        }
    }

    /// A server that has no `ETag` sends the whole picture each day.
    @Test func aPictureIsDecodedOnceForItsURL() async throws {
        try await PictureFixture.run(fit: true) { fixture in
            try fixture.server.answer("/lamp", .init(Drawing(400, 400).jpeg()))
            let decoded = Mutex<[PictureFit]>([])
            let maker = PictureMaker { bytes, brand, fit in
                decoded.withLock { $0.append(fit) }
                return Result { try fit.file(of: bytes) }.mapError { _ in
                    PictureMaker.Failure(reason: .damaged, message: "")
                }
            }
            var log = ChangeLog()
            let document = fixture.document([fixture.url("/lamp"), fixture.url("/lamp")])
            func pass(_ order: String, _ fixture: PictureFixture) async throws {
                try await fixture.processor().process([log.change("order.replaced", order, document)])
                try await fixture.working([fixture.worker(maker: maker), fixture.worker(maker: maker)]) {
                    try await eventually("nothing is waited for") { try await fixture.due() == 0 }
                }
                fixture.clock.move(by: PictureIndex.freshSeconds + 1)
            }
            try await pass("o1", fixture)
            try await pass("o2", fixture)
            #expect(fixture.server.requests.count == 2)
            #expect(decoded.withLock { $0 } == [PictureFit(.square, on: .white)])

            // On another colour it is another picture.
            try await pass("o3", try fixture.fitting(background: "#102030"))
            #expect(decoded.withLock { $0.count } == 2)
            #expect(decoded.withLock { $0.last?.background } == PictureFit.Colour("#102030"))
            #expect(fixture.server.requests.count == 3)
        }
    }

    @Test(arguments: [
        ("too_many_pixels", "it has 65000 x 65000 pixels"), ("damaged", "it is damaged: it has no whole frame"),
        ("not_a_picture", "it is neither JPEG nor PNG nor WebP, it is a GIF"),
    ])
    func aPictureThatCannotBeMadeRightSaysWhy(_ reason: String, _ message: String) async throws {
        let file =
            switch reason {
            case "too_many_pixels": HostilePicture.claiming(width: 65_000, height: 65_000)
            case "damaged": Array(Drawing(300, 300).webp().prefix(2000))
            default: Array("GIF89a".utf8)
            }
        try await PictureFixture.run(fit: true) { fixture in
            try fixture.server.answer("/lamp", .init(file))
            var log = ChangeLog()
            let url = fixture.url("/lamp")
            try await fixture.processor().process([log.change("order.replaced", "o", fixture.document([url]))])
            try await fixture.working([fixture.worker()]) {
                try await eventually("given up") { try await fixture.due() == 0 }
            }
            #expect(fixture.failures(reason) == 5)
            #expect(try await fixture.images("o") == [nil])
            let key = PictureKey(orderType: try OrderTypeIdentifier(BrandFixture.orderType), url: url)
            let record = try #require(try await fixture.pictures.records([key]).first ?? nil)
            #expect(record.failure?.hasPrefix("\(reason): \(message)") == true, "\(record.failure ?? "")")
        }
    }
}

extension PictureFixture {
    /// Returns this fixture with a brand whose pictures are made right.
    func fitting(background: String? = nil) throws -> PictureFixture {
        var fixture = self
        try self.brand.write(
            pictureHosts: ["\(Self.host):\(self.server.port)"], fit: true, background: background)
        fixture.packager = OrderPackager(try self.brand.load(), tokens: try BrandFixture.tokens())
        return fixture
    }
}
