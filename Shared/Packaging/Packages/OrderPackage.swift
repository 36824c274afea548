import Cryptography

/// A signed package in the spans in which it is stored and served: the archive is head, assets, tail.
///
/// Immutable. A class, since a package goes through many arrays and has a dozen parts that each copy would retain.
/// Source: Design §7
public final class OrderPackage: Sendable {
    /// The ZIP entries of order.json, manifest.json and signature.
    public let head: [UInt8]
    /// The entries that follow, in order; their bytes are the brand's `Asset.entry`, or those of fetched pictures.
    public let assets: [AssetDigest]
    /// Central directory and end record.
    public let tail: [UInt8]
    /// Changes with every byte of the archive. 32 hexadecimal digits, without quotes.
    public let entityTag: String
    /// The signer, as `PackageBuilder.signer(of:)`.
    public let signer: String
    /// Identifies order.json and all files: packages that differ only in the signature have the same one. 32
    /// hexadecimal digits.
    public let contentDigest: String
    /// The seal with which the same package can be made again without signing.
    public let seal: PackageSeal
    /// Bytes of the whole archive.
    public let size: Int
    /// Files that the order names and the brand does not have, as JSON path and value:
    /// `$.lineItems[0].image: lamp.png`.
    public let omittedFiles: [String]
    /// URLs in the order that may be fetched and whose pictures were missing, each once. They may contain keys, so they
    /// must not be logged.
    public let missingPictures: [String]

    init(
        head: [UInt8], assets: [AssetDigest], tail: [UInt8], entityTag: String, signer: String, contentDigest: String,
        seal: PackageSeal, size: Int, omittedFiles: [String], missingPictures: [String]
    ) {
        self.head = head
        self.assets = assets
        self.tail = tail
        self.entityTag = entityTag
        self.signer = signer
        self.contentDigest = contentDigest
        self.seal = seal
        self.size = size
        self.omittedFiles = omittedFiles
        self.missingPictures = missingPictures
    }

    /// The largest size of a package, in bytes.
    ///
    /// Source: Wallet Orders §2.1: below 5 MB
    public static let sizeLimit = 4_999_999

    /// Returns the entity tag of the package with a signature.
    ///
    /// The signature covers the manifest, the manifest covers all files, and the signature includes the time, so the
    /// last bytes of its value identify everything.
    static func entityTag(_ value: [UInt8]) -> String {
        String(decoding: Hexadecimal.digits(Array(value.suffix(16))), as: UTF8.self)
    }
}

extension OrderPackage: CustomStringConvertible {
    /// Size and tag, without the content, which names the customer and contains the token.
    public var description: String { "package of \(self.size) bytes, tag \(self.entityTag)" }
}
