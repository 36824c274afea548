/// A detached CMS signature that `SigningIdentity` made.
public struct DetachedSignature: Hashable, Sendable {
    /// The whole structure, in DER.
    public let der: [UInt8]
    /// The index in `der` of the first byte that not each signature of the same identity has. Before it are the
    /// certificates, after it signing time, digest and value.
    public let ownStart: Int
    /// The value that only the key can make. It is at the end of the structure.
    public let value: [UInt8]

    init(_ structure: (der: [UInt8], ownStart: Int), value: [UInt8]) {
        (self.der, self.ownStart) = structure
        self.value = value
    }
}
