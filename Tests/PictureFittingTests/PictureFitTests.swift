import Packaging
import PictureSamples
import TestKit
import Testing

@testable import PictureFitting

/// Pictures of all kinds that catalogues have, made right.
@Suite struct PictureFitTests {
    private let fit = PictureFit(.square, on: .white)

    @Test(arguments: PictureSample.all)
    func aPictureBecomesAnOpaqueSquareOfAtMost100Kilobytes(_ sample: PictureSample) throws {
        let file = try self.fit.file(of: sample.bytes)
        #expect(file.count <= 100_000)
        let seen = try Seen(file)
        #expect(seen.width == seen.height)
        #expect(seen.width <= 300)
        #expect(!seen.isTransparent)
        for note in ["Exif", "8BIM", "a note", "zTXt", "ICC"] { #expect(!file.contains(note.utf8), "\(note)") }
    }

    /// The corners of the drawing are red, green, blue and yellow, row by row.
    @Test(arguments: [
        (1, "rgby"), (2, "gryb"), (3, "ybgr"), (4, "byrg"), (5, "rbgy"), (6, "bryg"), (7, "ygbr"), (8, "gyrb"),
    ])
    func aPictureIsTurnedAsItsCameraNoted(_ orientation: UInt8, _ corners: String) throws {
        let jpeg = PictureSample.withNotes(Drawing(400, 400).jpeg(), orientation: orientation)
        #expect(try Seen(self.fit.file(of: jpeg)).corners == corners)
        // A picture that is no square, with its corners still in the corners of the picture.
        let wide = PictureSample.withNotes(Drawing(600, 200).jpeg(), orientation: orientation)
        let logo = try Seen(PictureFit(.trackingLogo, on: .white).file(of: wide))
        #expect((logo.width, logo.height) == (orientation < 5 ? (300, 100) : (100, 300)))
        #expect(logo.corners == corners)
    }

    @Test(arguments: Drawing.PNGKind.allCases, [false, true])
    func everyKindOfPNGIsDecoded(_ kind: Drawing.PNGKind, _ isInterlaced: Bool) throws {
        let seen = try Seen(self.fit.file(of: Drawing(431, 431).png(kind, isInterlaced: isInterlaced)))
        #expect(seen.width == 300)
        switch kind {
        case .grey, .greyAlpha, .blackWhite: #expect(seen.isGrey)
        default: #expect(seen.corners == "rgby")
        }
    }

    @Test(arguments: Drawing.JPEGKind.allCases, [false, true])
    func everyKindOfJPEGIsDecoded(_ kind: Drawing.JPEGKind, _ isProgressive: Bool) throws {
        let seen = try Seen(self.fit.file(of: Drawing(631, 631).jpeg(kind, isProgressive: isProgressive)))
        #expect(seen.width == 300)
        if kind == .luminance { #expect(seen.isGrey) } else { #expect(seen.corners == "rgby") }
    }

    @Test(arguments: [false, true])
    func everyKindOfWebPIsDecoded(_ isLossless: Bool) throws {
        for isLogo in [false, true] {
            let webp = Drawing(500, 500, isLogo: isLogo).webp(isLossless: isLossless)
            #expect(try Seen(self.fit.file(of: webp)).corners == "rgby")
        }
    }

    /// The second frame has nothing at the left edge, and its background would be seen there.
    @Test func anAnimationIsItsFirstFrame() throws {
        let frames = [Drawing(300, 300), Drawing(300, 300, isLogo: true)]
        let still = try Seen(self.fit.file(of: frames[0].webp()))
        let first = try Seen(self.fit.file(of: PictureSample.animated(frames)))
        #expect(first.at(0.02, 0.5) == still.at(0.02, 0.5))
        #expect(first.at(0.02, 0.5) != [255, 255, 255])
    }

    @Test func nothingIsTransparentAboveTheBrandsColour() throws {
        let colour = try #require(PictureFit.Colour("#102030"))
        for file in [Drawing(600, 600, isLogo: true).png(.colourAlpha), Drawing(600, 600, isLogo: true).webp()] {
            let seen = try Seen(PictureFit(.square, on: colour).file(of: file))
            #expect(seen.isNear([0x10, 0x20, 0x30], 0.02, 0.5))
            #expect(seen.isNear([0x10, 0x20, 0x30], 0.25, 0.7), "the hole")
            #expect(seen.isNear([20, 110, 120], 0.5, 0.12))
        }
        // Beside a picture that is no square, too.
        let wide = try Seen(PictureFit(.square, on: colour).file(of: Drawing(600, 200).jpeg()))
        #expect((wide.width, wide.height) == (300, 300))
        #expect(wide.isNear([0x10, 0x20, 0x30], 0.5, 0.1))
        #expect(wide.isNear([0x10, 0x20, 0x30], 0.5, 0.9))
        #expect(wide.isNear([230, 30, 30], 0.02, 0.36))
    }

    /// Around it may be dark: a white box would be seen.
    @Test func aTrackingLogoStaysTransparentAndKeepsItsProportions() throws {
        let fit = PictureFit(.trackingLogo, on: .white)
        let file = try fit.file(of: Drawing(1000, 500, isLogo: true).png(.colourAlpha))
        let seen = try Seen(file)
        #expect((seen.width, seen.height) == (300, 150))
        #expect(seen.isTransparent)
        #expect(PictureFormat(file) == .png)
        #expect(seen.corners == "rgby")
    }

    @Test func aSmallPictureIsNotMadeLarger() throws {
        let seen = try Seen(self.fit.file(of: Drawing(120, 90).jpeg()))
        #expect((seen.width, seen.height) == (120, 120))
        #expect(try Seen(self.fit.file(of: Drawing(1, 1).png(.colour))).width == 1)
    }

    @Test func aLongLinePictureKeepsAPixel() throws {
        let seen = try Seen(PictureFit(.trackingLogo, on: .white).file(of: Drawing(9000, 2).png(.colour)))
        #expect((seen.width, seen.height) == (300, 1))
    }

    /// Each pixel is the mean of those that it stands for: an even pattern becomes an even grey.
    @Test func averagesAreEven() throws {
        let pattern = Drawing(451, 451) { x, y in (x + y) % 2 == 0 ? 255 : 0 }
        let seen = try Seen(self.fit.file(of: pattern.png(.grey)))
        for place in stride(from: 0.005, to: 1, by: 0.01) {
            let value = Int(seen.at(place, 1 - place)[0])
            #expect((100...155).contains(value), "\(value)")
        }
    }

    /// Drawings stay sharp, photographs small.
    @Test func theSmallerFormatIsTaken() throws {
        #expect(PictureFormat(try self.fit.file(of: Drawing(1000, 1000, isLogo: true).png(.colourAlpha))) == .png)
        #expect(PictureFormat(try self.fit.file(of: Drawing(1000, 1000).jpeg())) == .jpeg)
    }

    @Test func noiseIsWrittenInAtMost100Kilobytes() throws {
        var generator = SeededGenerator(seed: 7)
        let noise = Drawing(300, 300) { _, _ in UInt8.random(in: 0...255, using: &generator) }
        #expect(try self.fit.file(of: noise.png(.grey)).count <= 100_000)
    }

    @Test(arguments: [
        ("#000000", PictureFit.Colour(red: 0, green: 0, blue: 0)),
        ("#fA0b1C", PictureFit.Colour(red: 0xFA, green: 0x0B, blue: 0x1C)),
        ("000000", nil), ("#00000", nil), ("#0000000", nil), ("#+00000", nil), ("#-00000", nil), ("#ggg000", nil),
        ("", nil), ("#ｆｆ", nil),
    ])
    func aColourHasSixDigits(_ text: String, _ colour: PictureFit.Colour?) {
        #expect(PictureFit.Colour(text) == colour)
    }
}

/// A file as it is seen.
struct Seen: CustomStringConvertible {
    let width: Int
    let height: Int
    private let pixels: [UInt8]

    init(_ file: [UInt8]) throws {
        let format = try #require(PictureFormat(file))
        let decoder = PictureDecoder(format: format, bytes: file)
        let size = try decoder.size()
        self.width = size.width
        self.height = size.height
        self.pixels = try decoder.pixels(size)
    }

    var description: String { "\(self.width) x \(self.height), \(self.corners)" }

    var isTransparent: Bool { stride(from: 3, to: self.pixels.count, by: 4).contains { self.pixels[$0] != 255 } }

    var isGrey: Bool {
        stride(from: 0, to: self.pixels.count, by: 4).allSatisfy { start in
            let colours = self.pixels[start..<start + 3].map(Int.init)
            return colours.max().map { most in colours.allSatisfy { most - $0 < 12 } } ?? false
        }
    }

    /// Returns the colour at a place, given as parts of width and height.
    func at(_ x: Double, _ y: Double) -> [UInt8] {
        let start = (Int(y * Double(self.height)) * self.width + Int(x * Double(self.width))) * 4
        return Array(self.pixels[start..<start + 3])
    }

    func isNear(_ colour: [UInt8], _ x: Double, _ y: Double) -> Bool {
        zip(self.at(x, y), colour).allSatisfy { abs(Int($0) - Int($1)) < 30 }
    }

    /// The colours of the corners, row by row: r, g, b, y, or `?`.
    var corners: String {
        let known: [(String, [UInt8])] = [
            ("r", [230, 30, 30]), ("g", [30, 170, 60]), ("b", [40, 70, 220]), ("y", [240, 210, 30]),
        ]
        return [(0.05, 0.05), (0.95, 0.05), (0.05, 0.95), (0.95, 0.95)].map { x, y in
            known.first { self.isNear($0.1, x, y) }?.0 ?? "?"
        }.joined()
    }
}
