import Model
import Packaging
import PictureFitting
import PictureSamples
import Sandbox
import TestTraits
import Testing

@testable import Packager

/// Pictures that are decoded in processes of their own, some of which they end.
@Suite(.server, .timeLimit(.minutes(3))) struct PictureChildrenTests {
    private let children = PictureChildren(.ofTests)
    private let fit = PictureFit(.square, on: .white)
    private let brand: OrderTypeIdentifier

    init() throws { self.brand = try OrderTypeIdentifier(BrandFixture.orderType) }

    @Test func aPictureIsMadeRightInAChild() async throws {
        for sample in [Drawing(500, 400).jpeg(), Drawing(300, 300, isLogo: true).webp()] {
            #expect(try await self.children.fit(sample, of: self.brand, self.fit).get() == self.fit.file(of: sample))
        }
        let logo = PictureFit(.trackingLogo, on: .white)
        let sample = Drawing(300, 200, isLogo: true).png(.colourAlpha)
        #expect(try await self.children.fit(sample, of: self.brand, logo).get() == logo.file(of: sample))
    }

    /// More than a child decodes in its life, and of another brand in between.
    @Test func aChildIsFollowedByAnotherOne() async throws {
        let other = try OrderTypeIdentifier("order.com.example.other")
        let sample = Drawing(20, 20).png(.colour)
        let made = try self.fit.file(of: sample)
        for number in 0..<70 {
            #expect(try await self.children.fit(sample, of: number == 3 ? other : self.brand, self.fit).get() == made)
        }
    }

    /// Pictures beside them and after them are made right.
    @Test(arguments: [
        ("huge", PictureFailure.tooManyPixels), ("gigabyte", .tooManyPixels), ("wide and progressive", .memory),
        ("scans", .slow), ("cut", .damaged), ("GIF", .notAPicture),
    ])
    func aHostilePictureEndsItsChildOnly(_ name: String, _ reason: PictureFailure) async throws {
        let file =
            switch name {
            case "huge": HostilePicture.claiming(width: 65_000, height: 65_000)
            case "gigabyte": HostilePicture.inflating(side: 31_622)
            case "wide and progressive": HostilePicture.claiming(width: 7000, height: 5700, isProgressive: true)
            case "scans": HostilePicture.scanning(scans: 20_000)
            case "cut": Array(Drawing(300, 300).jpeg().prefix(5000))
            default: Array("GIF89a".utf8)
            }
        let small = Drawing(100, 100).png(.colour)
        async let other = self.children.fit(small, of: self.brand, self.fit)
        let result = await self.children.fit(file, of: self.brand, self.fit)
        guard case .failure(let failure) = result else {
            Issue.record("\(reason) was made right")
            return
        }
        #expect(failure.reason == reason, "\(failure.message)")
        #expect(failure.message.hasPrefix("it ") || failure.message.hasPrefix("decoding it "), "\(failure.message)")
        let made = try self.fit.file(of: small)
        #expect(try await other.get() == made)
        #expect(try await self.children.fit(small, of: self.brand, self.fit).get() == made)
    }

    /// An animation without end is as long as its first frame; a gigabyte of zeros behind a small picture is either
    /// passed over within the time, or ends its child.
    @Test func whatNeverEndsIsDecodedAsFarAsItIsNeeded() async throws {
        let animation = PictureSample.animated([Drawing(100, 100), Drawing(100, 100)])
        #expect(try await self.children.fit(animation, of: self.brand, self.fit).get().count < PictureFit.sizeLimit)
        if case .failure(let failure) = await self.children.fit(
            HostilePicture.inflating(side: 400), of: self.brand, self.fit)
        {
            #expect(failure.reason == .slow, "\(failure.message)")
        }
    }

    @Test func aProgramThatCannotBeStartedIsNotThePicturesFault() async throws {
        var sandbox = PictureChildren.sandbox(.full)
        sandbox.path = "/nonexistent"
        let result = await PictureChildren(sandbox).fit(Drawing(10, 10).jpeg(), of: self.brand, self.fit)
        guard case .failure(let failure) = result else {
            Issue.record("there is no such program")
            return
        }
        #expect(failure.reason == .noDecoder)
        #expect(failure.reason.isTemporary)
        #expect(failure.message.contains("/nonexistent"), "\(failure.message)")
    }

    /// A child that says what nobody asked is not believed.
    @Test(arguments: [[], [99], [0], [0, 255, 255, 255, 255, 255, 255, 255, 127], [1]] as [[UInt8]])
    func anAnswerThatIsNotAsAgreedIsAFailure(_ answer: [UInt8]) {
        guard case .failure(let failure) = PictureChildren.result(of: answer) else {
            Issue.record("it is no file")
            return
        }
        #expect(failure.reason == .decoderCrashed)
    }

    @Test(arguments: [[], [0, 1, 2], [7, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]] as [[UInt8]])
    func aRequestThatIsNotAsAgreedIsAnswered(_ request: [UInt8]) {
        #expect(PictureChildren.answer(request).first != 0)
    }
}
