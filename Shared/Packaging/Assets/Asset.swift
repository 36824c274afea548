import Cryptography

/// A brand's file, prepared once for all packages that show it.
public struct Asset: Hashable, Sendable {
    /// The path inside the package: `logo.png`, `en.lproj/order.strings`.
    public let name: String
    /// SHA-256 of the content in lower-case hexadecimal digits, for the manifest.
    public let contentDigest: String
    /// The name of the entry in Redis and in a record of an order.
    public let entryDigest: AssetDigest
    /// The ready ZIP entry: local header and data.
    public let entry: [UInt8]
    /// The entry's description for the central directory.
    let header: ZIPEntry

    /// - Parameters:
    ///   - name: 1 to 255 bytes; the caller has checked that it is a plain relative path.
    ///   - content: less than 4 GiB; the caller's limit is far below.
    public init(name: String, content: [UInt8]) {
        let deflated = Self.isCompressed(content) ? nil : Deflater(level: 12).deflate(content)
        let data = deflated ?? content
        let header = ZIPEntry(
            name: Array(name.utf8), isDeflated: deflated != nil, checksum: zipChecksum(content),
            storedSize: UInt32(clamping: data.count), size: UInt32(clamping: content.count))
        var entry: [UInt8] = []
        entry.reserveCapacity(ZIPEntry.localHeaderSize + header.name.count + data.count)
        header.appendLocalHeader(to: &entry)
        entry += data
        self.name = name
        self.contentDigest = SHA256.hex(content)
        self.entryDigest = AssetDigest(rawValue: SHA256.hex(entry))
        self.entry = entry
        self.header = header
    }

    /// Returns true if deflating would only cost time on the device: PNG, JPEG and PDF are already compressed.
    private static func isCompressed(_ content: [UInt8]) -> Bool {
        let starts: [[UInt8]] = [[0x89, 0x50, 0x4E, 0x47], [0xFF, 0xD8, 0xFF], [0x25, 0x50, 0x44, 0x46]]
        return starts.contains { content.starts(with: $0) }
    }

    /// Returns `logo.png` for `logo@2x.png` and `logo@3x.png`.
    ///
    /// Source: Wallet Orders §2.6
    public static func withoutScale(_ name: String) -> String {
        let dot = name.lastIndex(of: ".") ?? name.endIndex
        let stem = name[..<dot]
        guard stem.hasSuffix("@2x") || stem.hasSuffix("@3x") else { return name }
        return String(stem.dropLast(3)) + name[dot...]
    }
}

/// SHA-256 of a ready ZIP entry in lower-case hexadecimal digits.
///
/// The digest is that of the entry, not of the content, because the entry contains the name: one picture with two
/// names is two entries.
public struct AssetDigest: Hashable, Sendable {
    public let rawValue: String

    /// - Parameter rawValue: 64 hexadecimal digits, as returned by `Asset.entryDigest`.
    public init(rawValue: String) { self.rawValue = rawValue }
}

/// The kind of a file in a package, by its suffix: Wallet shows nothing else.
///
/// Source: Wallet Orders §2.6, §2.7
public enum AssetKind: Hashable, Sendable {
    case picture(Picture.Format)
    case pdf

    /// - Parameter name: a file's name; the case of the suffix does not matter.
    /// - Returns: nil for any other suffix.
    public init?(name: String) {
        guard let dot = name.lastIndex(of: "."), name[dot...].firstIndex(of: "/") == nil else { return nil }
        switch name[dot...].dropFirst().lowercased() {
        case "png": self = .picture(.png)
        case "jpg", "jpeg": self = .picture(.jpeg)
        case "pdf": self = .pdf
        default: return nil
        }
    }

    var isPicture: Bool { if case .picture = self { true } else { false } }

    /// Checks that a file's content matches its suffix.
    /// - Throws: `PictureFault`, whose message ends the sentence "it …".
    public func check(_ content: [UInt8]) throws(PictureFault) {
        switch self {
        case .picture(let format):
            let picture = try Picture.inspect(content)
            guard picture.format == format else {
                throw PictureFault("is a \(picture.format.rawValue); its name must end in .\(picture.format.suffix)")
            }
        case .pdf:
            guard Self.isPDF(content) else {
                throw PictureFault("is not a PDF that begins with %PDF and ends with %%EOF; export or copy it again")
            }
        }
    }

    /// Source: ISO 32000-1 §7.5.2, §7.5.5; readers look for the end in the last 1,024 bytes
    private static func isPDF(_ content: [UInt8]) -> Bool {
        let end = content.suffix(1024)
        return content.starts(with: "%PDF-".utf8)
            && end.indices.contains { end[$0...].starts(with: "%%EOF".utf8) }
    }
}
