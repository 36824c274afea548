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
            throw PictureFault(bytes.isEmpty ? "is empty" : "is neither PNG nor JPEG\(Self.guess(bytes))")
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

    /// Returns the apparent type of a file that is not a picture, for messages.
    private static func guess(_ bytes: [UInt8]) -> String {
        func starts(_ text: String, at offset: Int = 0) -> Bool { bytes.dropFirst(offset).starts(with: text.utf8) }
        if starts("GIF8") { return ", it is a GIF" }
        if starts("RIFF"), starts("WEBP", at: 8) { return ", it is a WebP picture" }
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
