import Cryptography

/// A signed package in the spans in which it is stored and served: the archive is assets, head, certificates, tail.
///
/// Immutable. A class, since a package goes through many arrays and has a dozen parts that each copy would retain.
/// Source: Design §7
public final class OrderPackage: Sendable {
    /// The first entries, in order; their bytes are the brand's `Asset.entry`, or those of fetched pictures.
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
        assets: [AssetDigest], head: [UInt8], certificates: PackageCertificates, tail: [UInt8], entityTag: String,
        signer: String, contentDigest: String, seal: PackageSeal, size: Int, omittedFiles: [String],
        missingPictures: [String]
    ) {
        self.assets = assets
        self.head = head
        self.certificates = certificates
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

/// The parts of a package that only its key could make, with the digests that show whether they fit: enough to make the
/// same package again, byte for byte, without signing.
public struct PackageSeal: Hashable, Sendable {
    /// Bytes of the signer's identifier and of the content's digest.
    static let digestSize = 16

    /// The bytes of `PackageBuilder.signer(of:)`.
    let signer: [UInt8]
    /// The bytes of `OrderPackage.contentDigest`, which identifies the manifest.
    let content: [UInt8]
    let signingEpochSeconds: Int64
    /// `DetachedSignature.value`
    let value: [UInt8]

    init(signer: [UInt8], content: [UInt8], signingEpochSeconds: Int64, value: [UInt8]) {
        self.signer = signer
        self.content = content
        self.signingEpochSeconds = signingEpochSeconds
        self.value = value
    }

    /// True if a package of the same content and signer has another signature instead: this one was not valid.
    public func isDamaged(replacedBy other: PackageSeal) -> Bool {
        self.signer == other.signer && self.content == other.content && self != other
    }

    /// Extracts the seal of a stored package.
    ///
    /// - Parameters:
    ///   - tail: `OrderPackage.tail`.
    ///   - signer: `OrderPackage.signer`, 32 hexadecimal digits.
    ///   - content: `OrderPackage.contentDigest`, 32 hexadecimal digits.
    ///   - entityTag: the tag of the same package.
    /// - Returns: nil if the four do not belong together, or are those of a package that cannot be made again.
    public init?(tail: [UInt8], signer: String, content: String, entityTag: String) {
        guard let signature = DetachedSignature.parts(ofOwn: tail),
            OrderPackage.entityTag(signature.value) == entityTag, let signer = Hexadecimal.bytes(signer),
            let content = Hexadecimal.bytes(content), signer.count == Self.digestSize,
            content.count == Self.digestSize
        else { return nil }
        self.init(
            signer: signer, content: content, signingEpochSeconds: signature.signingEpochSeconds,
            value: signature.value)
    }

    /// Parses a seal from its text; nil for any other text.
    public init?(_ text: String) {
        guard let bytes = Base64URL.decode(Array(text.utf8)), bytes.count > 2 * Self.digestSize + 8 else { return nil }
        let (digest, time) = (Self.digestSize, 2 * Self.digestSize)
        self.signer = Array(bytes[..<digest])
        self.content = Array(bytes[digest..<time])
        let seconds = bytes[time..<time + 8].reduce(0 as UInt64) { $0 << 8 | UInt64($1) }
        self.signingEpochSeconds = Int64(bitPattern: seconds)
        self.value = Array(bytes[(time + 8)...])
    }

    /// Signer, content, signing time in eight big-endian bytes, and value, in base 64 for URLs.
    public var text: String {
        var bytes = self.signer + self.content
        bytes.reserveCapacity(bytes.count + 8 + self.value.count)
        let seconds = UInt64(bitPattern: self.signingEpochSeconds)
        for shift in stride(from: 56 as UInt64, through: 0, by: -8) {
            bytes.append(UInt8(truncatingIfNeeded: seconds >> shift))
        }
        return Base64URL.encode(bytes + self.value)
    }
}
