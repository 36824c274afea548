import Cryptography
public import Model

/// A signed package in the spans in which it is stored and served: the archive is assets, head, certificates, tail.
///
/// Immutable. A class, since a package goes through many arrays and has a dozen parts that each copy would retain.
/// Source: Design §7
public final class OrderPackage: Sendable {
    /// The first entries, in order; their bytes are the brand's `Asset.entry`, or those of fetched pictures and of the
    /// order's own documents.
    public let assets: [AssetDigest]
    /// The ZIP entries of order.json and manifest.json, and the header of the signature's.
    public let head: [UInt8]
    /// The bytes with which the signatures of all packages of a brand begin.
    public let certificates: PackageCertificates
    /// The rest of the signature, central directory and end record.
    public let tail: [UInt8]
    /// Changes with every byte of the archive. 32 hexadecimal digits, without quotes.
    public let entityTag: String
    /// The signer, as `PackageBuilder.signer(of:)`.
    public let signer: String
    /// Identifies order.json and all files: packages that differ only in the signature have the same one. 32
    /// hexadecimal digits.
    public let contentDigest: String
    /// Bytes of the whole archive.
    public let size: Int
    /// Files that the order names and the brand does not have, as JSON path and value:
    /// `$.lineItems[0].image: lamp.png`.
    public let omittedFiles: [String]
    /// URLs in the order that may be fetched and whose pictures or documents were missing, each once. They may contain
    /// keys, so they must not be logged.
    public let missingPictures: [String]
    /// The guidelines that the order does not keep; without `pictureSize`, since no picture is looked at.
    public let unmetGuidelines: Set<OrderGuideline>

    init(
        assets: [AssetDigest], head: [UInt8], certificates: PackageCertificates, tail: [UInt8], entityTag: String,
        signer: String, contentDigest: String, size: Int, omittedFiles: [String],
        missingPictures: [String], unmetGuidelines: Set<OrderGuideline>
    ) {
        self.assets = assets
        self.head = head
        self.certificates = certificates
        self.tail = tail
        self.entityTag = entityTag
        self.signer = signer
        self.contentDigest = contentDigest
        self.size = size
        self.omittedFiles = omittedFiles
        self.missingPictures = missingPictures
        self.unmetGuidelines = unmetGuidelines
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

/// The beginning of a signature, up to the signing time. It has the certificates, is nine tenths of the signature, and
/// is stored once for all packages of a brand, like an asset.
public struct PackageCertificates: Sendable {
    public let digest: AssetDigest
    public let bytes: [UInt8]

    init(_ bytes: [UInt8]) {
        self.digest = AssetDigest(rawValue: SHA256.hex(bytes))
        self.bytes = bytes
    }
}

extension OrderPackage: CustomStringConvertible {
    /// Size and tag, without the content, which names the customer and contains the token.
    public var description: String { "package of \(self.size) bytes, tag \(self.entityTag)" }
}
