import Foundation
import Packaging
import TestKit
import Testing

@Suite struct PictureTests {
    @Test func headersOfPNGAndJPEGAreRead() throws {
        let png = try Picture.inspect(SampleFile.png(seed: 1, side: 300))
        #expect(png.format == .png)
        #expect(png.width == 300)
        #expect(png.height == 300)
        let jpeg = try Picture.inspect(SampleFile.jpeg(seed: 1))
        #expect(jpeg.format == .jpeg)
        #expect(jpeg.width == 304)
        #expect(jpeg.height == 304)
        #expect(Picture.Format.allCases.map(\.suffix) == ["png", "jpg"])
    }

    /// Width and height are not mixed up; fill bytes, comments and thumbnails before the frame are skipped.
    @Test func jpegSegmentsBeforeTheFrameAreSkipped() throws {
        let thumbnail = Array(SampleFile.jpeg(seed: 2))
        func segment(_ marker: UInt8, _ data: [UInt8]) -> [UInt8] {
            [0xFF, marker, UInt8((data.count + 2) >> 8), UInt8((data.count + 2) & 0xFF)] + data
        }
        let file: [UInt8] =
            [0xFF, 0xD8] + segment(0xE1, thumbnail) + [0xFF, 0xFF, 0xFF] + segment(0xFE, [0xFF, 0xD9])
            + segment(0xC2, [8, 1, 2, 3, 4, 1, 1, 0x11, 0]) + segment(0xDA, [1, 1, 0, 0, 63, 0]) + [1, 2, 0xFF, 0xD9]
        let picture = try Picture.inspect(file)
        #expect(picture.height == 0x102)
        #expect(picture.width == 0x304)
        #expect(picture.format == .jpeg)
    }

    @Test(arguments: [
        ("", "is empty"), ("GIF89a", "it is a GIF"), ("RIFF0000WEBPVP8 ", "it is a WebP"),
        ("0000ftypheic", "HEIF or AVIF"), ("%PDF-1.4", "it is a PDF"), ("<svg xmlns", "SVG"),
        ("<!DOCTYPE html>", "it is a web page"), ("plain", "is neither PNG nor JPEG"),
    ])
    func unsupportedPictureFormatsAreNamed(_ text: String, _ message: String) {
        let fault = #expect(throws: PictureFault.self) { try Picture.inspect(Array(text.utf8)) }
        #expect(fault?.message.contains(message) == true, "\(fault?.message ?? "")")
    }

    /// Every truncation of a valid file is refused, and none traps.
    @Test func aTruncatedPictureIsRefused() throws {
        for file in [SampleFile.png(seed: 1, side: 64), SampleFile.jpeg(seed: 1)] {
            for count in 0..<file.count {
                #expect(throws: PictureFault.self, "\(count)") { try Picture.inspect(Array(file.prefix(count))) }
            }
            #expect(throws: Never.self) { try Picture.inspect(file + [1, 2, 3]) }
        }
    }

    /// A file with any header byte replaced is read or refused, and never traps.
    @Test func aCorruptedHeaderByteNeverTraps() {
        for file in [SampleFile.png(seed: 1, side: 16), SampleFile.jpeg(seed: 1)] {
            for index in 0..<min(file.count, 400) {
                for value: UInt8 in [0, 1, 0x7F, 0x80, 0xD8, 0xD9, 0xDA, 0xFF] {
                    var broken = file
                    broken[index] = value
                    if let picture = try? Picture.inspect(broken) { #expect(picture.width > 0) }
                }
            }
        }
    }

    @Test func eachPNGFaultHasItsOwnMessage() {
        let good = SampleFile.png(seed: 1, side: 64)
        func message(_ change: (inout [UInt8]) -> Void) -> String {
            var file = good
            change(&file)
            return #expect(throws: PictureFault.self) { try Picture.inspect(file) }?.message ?? ""
        }
        #expect(message { $0[12] = UInt8(ascii: "X") }.contains("does not begin with its header"))
        #expect(message { $0[19] = 65 }.contains("checksum is wrong"))
        #expect(message { $0 = self.header(of: $0, at: 9, 5) }.contains("does not know"))
        #expect(message { $0 = self.header(of: $0, at: 2, 0x20) }.contains("at most 4096 a side"))
        #expect(message { $0 = self.header(of: $0, at: 3, 0) }.contains("no pixels"))
        #expect(message { $0.removeSubrange(33..<($0.count - 12)) }.contains("without pixels"))
    }

    @Test func eachJPEGFaultHasItsOwnMessage() throws {
        let good = SampleFile.jpeg(seed: 1)
        let frame = try #require((2..<good.count).first { good[$0] == 0xFF && good[$0 + 1] == 0xC0 })
        func message(_ change: (inout [UInt8]) -> Void) -> String {
            var file = good
            change(&file)
            return #expect(throws: PictureFault.self) { try Picture.inspect(file) }?.message ?? ""
        }
        #expect(message { $0[frame + 1] = 0xC9 }.contains("of a rare kind"))
        #expect(message { $0[frame + 1] = 0xC4 }.contains("without a frame header"))
        #expect(message { $0[frame + 4] = 12 }.contains("12 bits"))
        #expect(message { $0[frame + 9] = 3 }.contains("frame header is too short"))
        #expect(
            message {
                $0[frame + 5] = 0
                $0[frame + 6] = 0
            }.contains("no pixels"))
        #expect(message { $0[frame + 5] = 0x20 }.contains("at most 4096"))
        #expect(message { $0[frame] = 0 }.contains("should begin a segment"))
        #expect(message { $0[3] = 0xD9 }.contains("without pixels"))
        #expect(
            message {
                $0[4] = 0
                $0[5] = 1
            }.contains("has no length"))
    }

    /// Returns a PNG with one byte of its header set and the header's checksum corrected.
    private func header(of file: [UInt8], at offset: Int, _ value: UInt8) -> [UInt8] {
        var file = file
        file[16 + offset] = value
        let sum = CRC32.checksum(Array(file[12..<29]))
        for index in 0..<4 { file[29 + index] = UInt8(truncatingIfNeeded: sum >> UInt32(24 - 8 * index)) }
        return file
    }
}
