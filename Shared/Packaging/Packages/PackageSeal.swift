import Cryptography

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
