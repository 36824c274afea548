import Cryptography
import Model

/// A picture, or an order's own document, from a URL as used in packages: everything but its bytes, which are in Redis
/// under `asset`.
public struct PictureFile: Hashable, Sendable {
    /// The name in packages: `picture-` or `document-` with 16 hexadecimal digits of the SHA-256 of its identity, and
    /// the suffix of its format.
    public let name: String
    /// SHA-256 of the picture, for the manifest.
    public let contentDigest: String
    /// The name of its ready ZIP entry; of an order's own document the reference.
    public let asset: AssetDigest
    /// CRC-32 of the picture.
    public let checksum: UInt32
    /// Bytes of the picture.
    public let size: Int

    /// Describes a picture from stored values.
    ///
    /// - Returns: nil if a value is not one that `make` or `makeDocument` returns.
    public init?(name: String, contentDigest: String, asset: String, checksum: Int64, size: Int64) {
        let isDigest = { (text: String) in
            text.utf8.count == 64
                && text.utf8.allSatisfy { $0 &- UInt8(ascii: "0") < 10 || $0 &- UInt8(ascii: "a") < 6 }
        }
        let isDocument = name.hasPrefix("document-")
        guard isDocument || name.hasPrefix("picture-"), name.utf8.count <= 32, !name.contains("/"),
            isDigest(contentDigest), isDocument ? OwnDocument.bytes(of: asset) > size : isDigest(asset),
            let checksum = UInt32(exactly: checksum),
            (1...(isDocument ? DocumentRules.sizeRange.upperBound : Int64(Self.sizeLimit))).contains(size)
        else { return nil }
        self.name = name
        self.contentDigest = contentDigest
        self.asset = AssetDigest(rawValue: asset)
        self.checksum = checksum
        self.size = Int(size)
    }

    private init(_ asset: Asset, size: Int, reference: String? = nil) {
        self.name = asset.name
        self.contentDigest = asset.contentDigest
        self.asset = reference.map { AssetDigest(rawValue: $0) } ?? asset.entryDigest
        self.checksum = asset.header.checksum
        self.size = size
    }

    /// The largest size of a picture, in bytes: five of them fit into a package with everything else.
    public static let sizeLimit = 1_000_000

    /// Makes a file of a fetched picture.
    ///
    /// Judged by its content: the type that the server reports does not matter.
    /// - Parameter url: the identity of the picture, `PictureHosts.identity`.
    /// - Returns: the description and the ready ZIP entry.
    /// - Throws: `PictureFault` if it is not a picture that Wallet shows.
    public static func make(
        url: String, content: [UInt8]
    ) throws(PictureFault) -> (file: PictureFile, entry: [UInt8]) {
        guard content.count <= Self.sizeLimit else { throw PictureFault("has more than \(Self.sizeLimit) bytes") }
        let picture = try Picture.inspect(content)
        let digits = SHA256.hex(Array(url.utf8)).prefix(16)
        let asset = Asset(name: "picture-\(digits).\(picture.format.suffix)", content: content)
        return (PictureFile(asset, size: content.count), asset.entry)
    }

    /// Makes a file of a fetched document of one order: a PDF, PNG or JPEG, judged by its content.
    ///
    /// - Parameter identifier: `DocumentRules.identifier(of:)` of its URL.
    /// - Returns: the description and the ready ZIP entry.
    /// - Throws: `PictureFault` if it is none that Wallet shows.
    public static func makeDocument(
        _ identifier: String, content: [UInt8]
    ) throws(PictureFault) -> (file: PictureFile, entry: [UInt8]) {
        let suffix: String
        if content.starts(with: "%PDF-".utf8) {
            try AssetKind.pdf.check(content)
            suffix = "pdf"
        } else if content.starts(with: Picture.pngStart) || content.starts(with: Picture.jpegStart) {
            suffix = try Picture.inspect(content).format.suffix
        } else {
            throw Picture.unknown(content, expected: "neither PDF, PNG nor JPEG")
        }
        let asset = Asset(name: "document-\(identifier).\(suffix)", content: content)
        let reference = OwnDocument.reference(
            identifier, digest: asset.entryDigest.rawValue, bytes: asset.entry.count)
        return (PictureFile(asset, size: content.count, reference: reference), asset.entry)
    }

    /// The description for packages. PDF, PNG and JPEG are not deflated.
    var listing: AssetListing {
        AssetListing(
            name: self.name, contentDigest: self.contentDigest, entryDigest: self.asset,
            header: ZIPEntry(
                name: Array(self.name.utf8), isDeflated: false, checksum: self.checksum,
                storedSize: UInt32(clamping: self.size), size: UInt32(clamping: self.size)))
    }
}

/// The query parameters of a picture's URL that do not distinguish it from others: for example those of a signature,
/// which differ in each order.
public enum IgnoredQuery: Hashable, Sendable {
    /// The whole URL counts.
    case none
    /// The URL counts up to its query.
    case all
    /// All parameters count except those with these names.
    case names(Set<String>)

    /// The most names.
    public static let countLimit = 100
}

extension PictureHosts {
    /// True if URLs of one file may differ.
    public var ignoresQuery: Bool { self.ignoredQuery != .none }

    /// Returns the identity that distinguishes a picture from others: its URL without the parts that do not matter
    /// under the brand's rules. The URL itself is the one that is fetched.
    public func identity(of url: String) -> String {
        guard self.ignoresQuery else { return url }
        let end = url.firstIndex(of: "#") ?? url.endIndex
        guard let mark = url[..<end].firstIndex(of: "?") else { return url }
        var kept: [Substring] = []
        if case .names(let names) = self.ignoredQuery {
            kept = url[url.index(after: mark)..<end].split(separator: "&").filter { parameter in
                !names.contains(String(parameter.prefix { $0 != "=" }))
            }
        }
        return url[..<mark] + (kept.isEmpty ? "" : "?" + kept.joined(separator: "&"))
    }
}
