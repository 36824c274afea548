import Cryptography

/// A picture from a URL as used in packages: everything but its bytes, which are in Redis under `asset`.
public struct PictureFile: Hashable, Sendable {
    /// The name in packages: `picture-` with 16 hexadecimal digits of the SHA-256 of its identity, and the suffix of
    /// its format.
    public let name: String
    /// SHA-256 of the picture, for the manifest.
    public let contentDigest: String
    /// The name of its ready ZIP entry.
    public let asset: AssetDigest
    /// CRC-32 of the picture.
    public let checksum: UInt32
    /// Bytes of the picture.
    public let size: Int

    /// Describes a picture from stored values.
    ///
    /// - Returns: nil if a value is not one that `make` returns.
    public init?(name: String, contentDigest: String, asset: String, checksum: Int64, size: Int64) {
        let isDigest = { (text: String) in
            text.utf8.count == 64
                && text.utf8.allSatisfy { $0 &- UInt8(ascii: "0") < 10 || $0 &- UInt8(ascii: "a") < 6 }
        }
        guard name.hasPrefix("picture-"), name.utf8.count <= 32, !name.contains("/"), isDigest(contentDigest),
            isDigest(asset), let checksum = UInt32(exactly: checksum), (1...Int64(Self.sizeLimit)).contains(size)
        else { return nil }
        self.name = name
        self.contentDigest = contentDigest
        self.asset = AssetDigest(rawValue: asset)
        self.checksum = checksum
        self.size = Int(size)
    }

    private init(_ asset: Asset, size: Int) {
        self.name = asset.name
        self.contentDigest = asset.contentDigest
        self.asset = asset.entryDigest
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

    /// The description for packages. PNG and JPEG are not deflated.
    var listing: AssetListing {
        AssetListing(
            name: self.name, contentDigest: self.contentDigest, entryDigest: self.asset,
            header: ZIPEntry(
                name: Array(self.name.utf8), isDeflated: false, checksum: self.checksum,
                storedSize: UInt32(clamping: self.size), size: UInt32(clamping: self.size)))
    }
}
