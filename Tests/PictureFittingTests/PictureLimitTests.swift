import Packaging
import PictureSamples
import TestKit
import Testing

@testable import PictureFitting

/// Pictures that are damaged, or made to cost much.
@Suite struct PictureLimitTests {
    private let fit = PictureFit(.square, on: .white)

    @Test(arguments: [
        HostilePicture.claiming(width: 65_000, height: 65_000), HostilePicture.claiming(width: 65_535, height: 65_535),
        HostilePicture.claiming(width: 40_000, height: 1_001), HostilePicture.inflating(side: 31_622),
    ])
    func aPictureOfMoreThan40MegapixelsIsNotDecoded(_ file: [UInt8]) throws {
        let start = ContinuousClock.now
        let fault = try #require(throws: PictureFitFault.self) { try self.fit.file(of: file) }
        #expect(fault.reason == .tooManyPixels, "\(fault.message)")
        #expect(ContinuousClock.now - start < .seconds(5), "a billion pixels take longer")
    }

    @Test(arguments: [
        "", "<html>", "GIF89a", "%PDF-1.7", "RIFF\0\0\0\0WAVE", "\u{0}\u{0}\u{0} ftypavif",
    ])
    func otherFilesAreOfNoFormat(_ text: String) throws {
        let fault = try #require(throws: PictureFitFault.self) { try self.fit.file(of: Array(text.utf8)) }
        #expect(fault.reason == .notAPicture)
    }

    private static let small: [[UInt8]] = [
        Drawing(64, 48).jpeg(), Drawing(64, 48).jpeg(isProgressive: true), Drawing(40, 40).jpeg(.cmyk),
        PictureSample.withNotes(Drawing(40, 40).jpeg(), orientation: 6),
        Drawing(64, 48).png(.colourAlpha, isInterlaced: true), Drawing(64, 48).png(.paletteTransparent),
        Drawing(64, 48).png(.colour16), Drawing(64, 48).webp(), Drawing(64, 48, isLogo: true).webp(),
        Drawing(64, 48).webp(isLossless: true), PictureSample.animated([Drawing(64, 48), Drawing(64, 48)]),
    ]

    /// A part that is missing would be grey or black in the customer's hand.
    @Test(arguments: small)
    func aFileThatEndsInTheMiddleIsDamaged(_ file: [UInt8]) throws {
        for part in [1, 5, 9, 13, 15] {
            let fault = #expect(throws: PictureFitFault.self, "\(part)") {
                try self.fit.file(of: Array(file.prefix(file.count * part / 16)))
            }
            if part > 1 { #expect(fault?.reason == .damaged, "\(fault?.message ?? "")") }
        }
    }

    @Test(arguments: small)
    func changedBytesNeverTrap(_ file: [UInt8]) {
        var generator = SeededGenerator(seed: 54)
        var faults = 0
        for _ in 0..<24 {
            var changed = file
            for _ in 0..<Int.random(in: 1...8, using: &generator) {
                let index = Int.random(in: 12..<changed.count, using: &generator)
                changed[index] = UInt8.random(in: 0...255, using: &generator)
            }
            do {
                #expect(try self.fit.file(of: changed).count <= PictureFit.sizeLimit)
            } catch {
                faults += 1
                #expect(!error.message.isEmpty)
            }
        }
        #expect(faults > 0)
    }

    @Test(
        arguments: [
            [0xFF, 0xD8, 0xFF, 0xE1, 0x00, 0x08, 0x45, 0x78, 0x69, 0x66], [0xFF, 0xD8, 0xFF, 0xFF, 0xFF, 0xFF],
            [0xFF, 0xD8, 0xFF, 0xE1, 0x00, 0x00],
            [0xFF, 0xD8, 0xFF, 0xE1, 0, 24] + Array("Exif\0\0MM\0*".utf8) + [0xFF, 0xFF, 0xFF, 0xFF, 0, 1],
            [0xFF, 0xD8, 0xFF, 0xE1, 0, 24] + Array("Exif\0\0MM\0*".utf8) + [0, 0, 0, 8, 0xFF, 0xFF, 1, 0x12],
        ] as [[UInt8]])
    func notesThatCannotBeReadTurnNothing(_ file: [UInt8]) {
        for format in PictureFormat.allCases { #expect(Orientation(of: file, format) == .upright) }
    }
}
