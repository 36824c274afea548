import Cryptography

/// A brand's file, prepared once for all packages that show it.
public struct Asset: Hashable, Sendable {
    /// The path inside the package: `logo.png`, `en.lproj/order.strings`.
    public let name: String
    /// SHA-256 of the content in lower-case hexadecimal digits, for the manifest.
    public let contentDigest: String
    /// The name of the entry in Redis and in a package's recipe.
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
