import CPictureSamples

/// A picture as a shop's catalogue has it, drawn and encoded here.
public struct PictureSample: Sendable, CustomStringConvertible {
    public let description: String
    public let bytes: [UInt8]

    /// A picture of each kind that catalogues have.
    public static let all: [PictureSample] = Self.jpegs + Self.pngs + Self.webps

    private static let jpegs: [PictureSample] = [
        Self("JPEG of 2,000 px", Drawing(2000, 1500).jpeg()),
        Self("progressive JPEG of 3,000 px", Drawing(3000, 2000).jpeg(isProgressive: true)),
        Self("JPEG of a telephone, turned", Self.withNotes(Drawing(1600, 1200).jpeg(), orientation: 6)),
        Self("JPEG, tall and turned back", Self.withNotes(Drawing(1800, 600).jpeg(), orientation: 8)),
        Self("JPEG, mirrored", Self.withNotes(Drawing(800, 800).jpeg(), orientation: 2)),
        Self("JPEG of a printer, CMYK", Drawing(1200, 1200).jpeg(.cmyk)),
        Self("JPEG of a printer, YCCK", Drawing(1200, 900).jpeg(.ycck)),
        Self("grey JPEG", Drawing(900, 900).jpeg(.luminance)),
        Self("JPEG with 500 kB of notes", Self.withNotes(Drawing(300, 300).jpeg(), padding: 500_000)),
        Self("small JPEG", Drawing(120, 90).jpeg()),
    ]

    private static let pngs: [PictureSample] = [
        Self("transparent PNG of 2,000 px", Drawing(2000, 2000, isLogo: true).png(.colourAlpha)),
        Self("photograph as PNG", Drawing(1000, 1000).png(.colour)),
        Self("interlaced, transparent PNG", Drawing(777, 555, isLogo: true).png(.colourAlpha, isInterlaced: true)),
        Self("PNG of 16 bit", Drawing(800, 600).png(.colour16)),
        Self(
            "transparent PNG of 16 bit, interlaced",
            Drawing(500, 500, isLogo: true).png(.colourAlpha16, isInterlaced: true)),
        Self("PNG with a palette", Drawing(900, 600, isLogo: false).png(.palette)),
        Self("PNG with a transparent palette", Drawing(640, 640, isLogo: true).png(.paletteTransparent)),
        Self("grey PNG with transparency", Drawing(512, 512, isLogo: true).png(.greyAlpha)),
        Self("PNG in black and white", Drawing(1000, 700).png(.blackWhite)),
        Self("wide, grey PNG", Drawing(1500, 400).png(.grey)),
    ]

    private static let webps: [PictureSample] = [
        Self("WebP of 2,000 px", Drawing(2000, 2000).webp()),
        Self("lossless WebP", Drawing(1000, 800).webp(isLossless: true)),
        Self("transparent WebP", Drawing(1200, 1200, isLogo: true).webp()),
        Self("animated WebP", Self.animated([Drawing(400, 300), Drawing(400, 300, isLogo: true)])),
    ]

    private init(_ description: String, _ bytes: [UInt8]) {
        self.description = description
        self.bytes = bytes
    }
}

/// A drawing of some size.
///
/// Its corners are red, green, blue and yellow, row by row.
public struct Drawing: Sendable {
    public let width: Int
    public let height: Int
    /// Red, green, blue and alpha.
    private let pixels: [UInt8]

    /// - Parameter isLogo: true for a drawing on nothing, otherwise it is a photograph of a lamp.
    public init(_ width: Int, _ height: Int, isLogo: Bool = false) {
        self.width = width
        self.height = height
        var pixels = [UInt8](repeating: 0, count: width * height * 4)
        unsafe picture_samples_draw(&pixels, UInt32(width), UInt32(height), isLogo ? 1 : 0)
        self.pixels = pixels
    }

    /// Draws shades of grey.
    public init(_ width: Int, _ height: Int, grey: (_ column: Int, _ row: Int) -> UInt8) {
        self.width = width
        self.height = height
        self.pixels = (0..<height).flatMap { y in
            (0..<width).flatMap { x in [UInt8](repeating: grey(x, y), count: 3) + [255] }
        }
    }

    public enum PNGKind: UInt32, Sendable, CaseIterable {
        // As `enum picture_samples_png` has them.
        case colour, colourAlpha, grey, greyAlpha, blackWhite, palette, paletteTransparent, colour16, colourAlpha16
    }

    public enum JPEGKind: UInt32, Sendable, CaseIterable {
        // As `enum picture_samples_jpeg` has them.
        case colour, luminance, cmyk, ycck
    }

    public func png(_ kind: PNGKind, isInterlaced: Bool = false) -> [UInt8] {
        unsafe Self.file { output in
            unsafe picture_samples_encode_png(
                self.pixels, UInt32(self.width), UInt32(self.height), Int32(kind.rawValue), isInterlaced ? 1 : 0, output
            )
        }
    }

    public func jpeg(_ kind: JPEGKind = .colour, isProgressive: Bool = false) -> [UInt8] {
        unsafe Self.file { output in
            unsafe picture_samples_encode_jpeg(
                self.pixels, UInt32(self.width), UInt32(self.height), Int32(kind.rawValue), isProgressive ? 1 : 0,
                output)
        }
    }

    public func webp(isLossless: Bool = false) -> [UInt8] {
        unsafe Self.file { output in
            unsafe picture_samples_encode_webp(
                self.pixels, UInt32(self.width), UInt32(self.height), isLossless ? 1 : 0, output)
        }
    }

    @unsafe
    private static func file(_ encode: (UnsafeMutablePointer<UnsafeMutablePointer<UInt8>?>) -> Int) -> [UInt8] {
        var output: UnsafeMutablePointer<UInt8>?
        let count = unsafe encode(&output)
        defer { unsafe picture_samples_free(output) }
        return unsafe Array(UnsafeBufferPointer(start: output, count: count))
    }
}

extension PictureSample {
    /// Adds a camera's notes to a JPEG: its orientation, and as many bytes as a camera's own picture takes.
    ///
    /// Source: CIPA DC-008 §4.5.4; TIFF 6.0 §2
    public static func withNotes(_ jpeg: [UInt8], orientation: UInt8 = 1, padding: Int = 0) -> [UInt8] {
        let tiff: [UInt8] =
            [0x4D, 0x4D, 0, 42, 0, 0, 0, 8, 0, 1] + [0x01, 0x12, 0, 3, 0, 0, 0, 1, 0, orientation, 0, 0]
        var segments = Self.segment(0xE1, Array("Exif\0\0".utf8) + tiff + [0, 0, 0, 0])
        for start in stride(from: 0, to: padding, by: 60_000) {
            segments += Self.segment(0xED, [UInt8](repeating: 0x20, count: min(60_000, padding - start)))
        }
        return Array(jpeg.prefix(2)) + segments + jpeg.dropFirst(2)
    }

    private static func segment(_ marker: UInt8, _ data: [UInt8]) -> [UInt8] {
        [0xFF, marker, UInt8((data.count + 2) >> 8), UInt8((data.count + 2) & 0xFF)] + data
    }

    /// Makes an animation without end of drawings of one size. Source: RFC 9649 §2.7
    public static func animated(_ frames: [Drawing]) -> [UInt8] {
        let (width, height) = (frames.first?.width ?? 1, frames.first?.height ?? 1)
        let edges = Self.little(width - 1, 3) + Self.little(height - 1, 3)
        // Flags: animation and alpha. No background, no end.
        var chunks = Self.chunk("VP8X", [0x12, 0, 0, 0] + edges) + Self.chunk("ANIM", [0, 0, 0, 0, 0, 0])
        for frame in frames {
            // At the upper left, for 100 milliseconds.
            let place = Self.little(0, 6) + edges + Self.little(100, 3) + [0]
            chunks += Self.chunk("ANMF", place + Self.frame(frame.webp()))
        }
        return Array("RIFF".utf8) + Self.little(chunks.count + 4, 4) + Array("WEBP".utf8) + chunks
    }

    /// The chunks of a still picture but the header of an extended file.
    private static func frame(_ webp: [UInt8]) -> [UInt8] {
        webp[12...].starts(with: "VP8X".utf8) ? Array(webp[30...]) : Array(webp[12...])
    }

    private static func chunk(_ type: String, _ data: [UInt8]) -> [UInt8] {
        Array(type.utf8) + Self.little(data.count, 4) + data + (data.count % 2 == 1 ? [0] : [])
    }

    private static func little(_ number: Int, _ count: Int) -> [UInt8] {
        (0..<count).map { UInt8(truncatingIfNeeded: number >> ($0 * 8)) }
    }
}
