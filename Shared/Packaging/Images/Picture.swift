/// The format and size from the header of a picture: Wallet shows PNG and JPEG.
///
/// Judged by content, never by name: a shop's export often has the wrong suffix, and an error page saved as `logo.png`
/// is not a picture. Nothing is decoded; the structure is followed up to the end, so that a truncated file is noticed.
/// Source: Wallet Orders §2.6
public struct Picture: Hashable, Sendable {
    /// The formats that Wallet accepts.
    public enum Format: String, Hashable, Sendable, CaseIterable {
        case png = "PNG"
        case jpeg = "JPEG"

        /// The suffix for files of this format, without the dot.
        public var suffix: String {
            switch self {
            case .png: "png"
            case .jpeg: "jpg"
            }
        }
    }

    public let format: Format
    /// In pixels, 1 to `sideLimit`.
    public let width: Int
    /// In pixels, 1 to `sideLimit`.
    public let height: Int

    /// The longest side in pixels.
    ///
    /// Our own limit: Wallet's is not known; it asks for 300. Decoded, a picture of this size already has 64 MB.
    static let sideLimit = 4096

    /// Reads the header of a picture.
    ///
    /// - Parameter bytes: the whole file.
    /// - Throws: `PictureFault`, whose message ends the sentence "the file …".
    public static func inspect(_ bytes: [UInt8]) throws(PictureFault) -> Picture {
        let picture: Picture
        if bytes.starts(with: Self.pngStart) {
            picture = try PNGHeader.read(bytes.span)
        } else if bytes.starts(with: Self.jpegStart) {
            picture = try JPEGHeader.read(bytes.span)
        } else {
            throw Self.unknown(bytes, expected: "neither PNG nor JPEG")
        }
        guard picture.width > 0, picture.height > 0 else { throw PictureFault("says that the picture has no pixels") }
        guard picture.width <= Self.sideLimit, picture.height <= Self.sideLimit else {
            throw PictureFault(
                "has \(picture.width) x \(picture.height) pixels, at most \(Self.sideLimit) a side are allowed; "
                    + "300 x 300 are enough")
        }
        return picture
    }

    /// Source: ISO/IEC 15948 §5.2
    static let pngStart: [UInt8] = [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]
    /// Start of image, and the first byte of the next marker. Source: ITU-T T.81 §B.1.1.3
    static let jpegStart: [UInt8] = [0xFF, 0xD8, 0xFF]

    /// Source: RFC 9649 §2.4
    static func isWebP(_ bytes: [UInt8]) -> Bool {
        bytes.starts(with: "RIFF".utf8) && bytes.dropFirst(8).starts(with: "WEBP".utf8)
    }

    /// The fault of a file of another type.
    public static func unknown(_ bytes: [UInt8], expected: String) -> PictureFault {
        PictureFault(bytes.isEmpty ? "is empty" : "is \(expected)\(Self.guess(bytes))")
    }

    /// Returns the apparent type of a file that is not a picture, for messages: `, it is a GIF`, or nothing.
    private static func guess(_ bytes: [UInt8]) -> String {
        func starts(_ text: String, at offset: Int = 0) -> Bool { bytes.dropFirst(offset).starts(with: text.utf8) }
        if starts("GIF8") { return ", it is a GIF" }
        if Self.isWebP(bytes) { return ", it is a WebP picture" }
        if starts("ftyp", at: 4) { return ", it is a HEIF or AVIF picture or a film" }
        if starts("%PDF") { return ", it is a PDF" }
        if starts("<svg") || starts("<?xml") { return ", it is SVG or other XML" }
        if starts("<") { return ", it is a web page" }
        return ""
    }
}

/// The reason why Wallet cannot show a file as a picture.
public struct PictureFault: Error, Hashable, Sendable, CustomStringConvertible {
    /// Ends the sentence "the file …".
    public let message: String
    public var description: String { "reading a picture: it \(self.message)" }

    init(_ message: String) { self.message = message }
}

/// Follows the segments of a JPEG up to its scan.
///
/// Layout: markers of FF and a code, most with a length (2, big-endian, counting itself) and data. The frame header
/// (SOF): precision, height (2), width (2), number of components, 3 bytes for each. A scan (SOS) begins the pixels.
/// Source: ITU-T T.81 Annex B
enum JPEGHeader {
    /// - Parameter bytes: the whole file, which begins with the start marker.
    static func read(_ bytes: Span<UInt8>) throws(PictureFault) -> Picture {
        let cutOff = PictureFault("is a JPEG that ends in the middle; export or copy it again")
        var position = 2
        var frame: Picture?
        while true {
            guard position < bytes.count else { throw cutOff }
            guard bytes[position] == 0xFF else {
                throw PictureFault("is a JPEG that is damaged: byte \(position) should begin a segment")
            }
            // Any number of FF may precede a marker. Source: T.81 §B.1.1.2
            while position < bytes.count, bytes[position] == 0xFF { position += 1 }
            guard position < bytes.count else { throw cutOff }
            let marker = bytes[position]
            position += 1
            // Without a length: TEM and the restart markers. Source: T.81 table B.1
            if marker == 0x01 || (0xD0...0xD7).contains(marker) { continue }
            guard marker != 0xD9, marker != 0xD8, marker != 0 else {
                throw PictureFault("is a JPEG without pixels")
            }
            guard position + 2 <= bytes.count else { throw cutOff }
            let length = Int(bytes[position]) << 8 | Int(bytes[position + 1])
            guard length >= 2 else {
                throw PictureFault("is a JPEG that is damaged: the segment at byte \(position) has no length")
            }
            guard length <= bytes.count - position else { throw cutOff }
            if self.isFrame(marker) {
                guard frame == nil else { throw PictureFault("is a JPEG with two frames") }
                frame = try self.frame(bytes.extracting(position..<position + length), marker)
            }
            position += length
            guard marker == 0xDA else { continue }
            guard let frame else { throw PictureFault("is a JPEG without a frame header (SOF)") }
            guard self.hasEnd(bytes, from: position) else { throw cutOff }
            return frame
        }
    }

    /// Returns true for frames of all kinds; C4, C8 and CC are something else. Source: T.81 table B.1
    private static func isFrame(_ marker: UInt8) -> Bool {
        (0xC0...0xCF).contains(marker) && marker != 0xC4 && marker != 0xC8 && marker != 0xCC
    }

    /// - Parameter segment: the bytes of the segment, beginning with its length.
    private static func frame(_ segment: Span<UInt8>, _ marker: UInt8) throws(PictureFault) -> Picture {
        // Baseline, extended and progressive; lossless, hierarchical and arithmetic ones are rarely supported by
        // decoders.
        guard marker <= 0xC2 else { throw PictureFault("is a JPEG of a rare kind; save it as baseline or progressive") }
        guard segment.count >= 8, segment.count == 8 + 3 * Int(segment[7]), segment[7] > 0 else {
            throw PictureFault("is a JPEG that is damaged: its frame header is too short or too long")
        }
        guard segment[2] == 8 else { throw PictureFault("is a JPEG with \(segment[2]) bits a colour; save it with 8") }
        return Picture(
            format: .jpeg, width: Int(segment[5]) << 8 | Int(segment[6]),
            height: Int(segment[3]) << 8 | Int(segment[4]))
    }

    /// Returns true if an end marker follows. Among the pixels an FF is followed by 0 or a restart marker, so they
    /// cannot contain one. Source: T.81 §B.1.1.5
    private static func hasEnd(_ bytes: Span<UInt8>, from start: Int) -> Bool {
        var position = start
        while position + 1 < bytes.count {
            if bytes[position] == 0xFF, bytes[position + 1] == 0xD9 { return true }
            position += 1
        }
        return false
    }
}

/// Follows the chunks of a PNG.
///
/// Layout: 8 bytes of signature, then chunks: length (4, big-endian), type (4), data, CRC-32 of type and data (4). The
/// first is IHDR: width (4), height (4), bit depth, colour type, compression, filter, interlace.
/// Source: ISO/IEC 15948 §5.3, §11.2.2
enum PNGHeader {
    private static let headerLength = 13

    /// - Parameter bytes: the whole file, which begins with the signature.
    static func read(_ bytes: Span<UInt8>) throws(PictureFault) -> Picture {
        let start = Picture.pngStart.count
        guard bytes.count >= start + 12 + self.headerLength,
            self.number(bytes, start) == self.headerLength, self.type(bytes, start) == "IHDR"
        else { throw PictureFault("is a PNG that does not begin with its header (IHDR)") }
        let data = start + 8
        guard self.number(bytes, data + self.headerLength) == self.checksum(bytes, from: start + 4, count: 17) else {
            throw PictureFault("is a PNG whose header is damaged: its checksum is wrong")
        }
        guard self.isKnown(depth: bytes[data + 8], colour: bytes[data + 9]), bytes[data + 10] == 0,
            bytes[data + 11] == 0, bytes[data + 12] <= 1
        else { throw PictureFault("is a PNG of a kind that the standard does not know") }
        try self.followChunks(bytes, from: data + self.headerLength + 4)
        return Picture(format: .png, width: self.number(bytes, data), height: self.number(bytes, data + 4))
    }

    /// Walks to the end chunk, with pixels on the way. Anything after the end is ignored.
    private static func followChunks(_ bytes: Span<UInt8>, from first: Int) throws(PictureFault) {
        var position = first
        var hasPixels = false
        while bytes.count - position >= 12 {
            let length = self.number(bytes, position)
            let type = self.type(bytes, position)
            guard length <= bytes.count - position - 12 else { break }
            if type == "IDAT" { hasPixels = true }
            if type == "IEND" {
                guard hasPixels else { throw PictureFault("is a PNG without pixels (IDAT)") }
                return
            }
            position += 12 + length
        }
        throw PictureFault("is a PNG that ends in the middle; export or copy it again")
    }

    /// Source: ISO/IEC 15948 §11.2.2, table 11.1
    private static func isKnown(depth: UInt8, colour: UInt8) -> Bool {
        switch colour {
        case 0: [1, 2, 4, 8, 16].contains(depth)
        case 3: [1, 2, 4, 8].contains(depth)
        case 2, 4, 6: depth == 8 || depth == 16
        default: false
        }
    }

    private static func type(_ bytes: Span<UInt8>, _ chunk: Int) -> String {
        String(decoding: (4..<8).map { bytes[chunk + $0] }, as: UTF8.self)
    }

    private static func number(_ bytes: Span<UInt8>, _ position: Int) -> Int {
        (0..<4).reduce(0) { $0 << 8 | Int(bytes[position + $1]) }
    }

    private static func checksum(_ bytes: Span<UInt8>, from start: Int, count: Int) -> Int {
        Int(zipChecksum((start..<start + count).map { bytes[$0] }))
    }
}
