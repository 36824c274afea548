/// A detached CMS signature that `SigningIdentity` made, with the two parts in which it differs from others over the
/// same content.
public struct DetachedSignature: Hashable, Sendable {
    /// The whole structure, in DER.
    public let der: [UInt8]
    /// The index in `der` of the first byte that not each signature of the same identity has. Before it are the
    /// certificates, after it signing time, digest and value.
    public let ownStart: Int
    /// The value that only the key can make. It is at the end of the structure.
    public let value: [UInt8]
    /// The signed attribute signingTime.
    public let signingEpochSeconds: Int64

    init(_ structure: (der: [UInt8], ownStart: Int), value: [UInt8], signingEpochSeconds: Int64) {
        (self.der, self.ownStart) = structure
        self.value = value
        self.signingEpochSeconds = signingEpochSeconds
    }

    /// Reads the value and the signing time back from bytes that begin at `ownStart`; nil for others. Nothing is
    /// verified.
    ///
    /// - Parameter bytes: more may follow after the signature.
    /// Source: RFC 5652 §5.3
    public static func parts(ofOwn bytes: [UInt8]) -> (value: [UInt8], signingEpochSeconds: Int64)? {
        var reader = DERReader(bytes)
        guard let time = reader.next(), reader.next() != nil, reader.next() != nil, let value = reader.next(),
            value.tag == DER.octetString, let seconds = Self.signingTime(time.content)
        else { return nil }
        return (Array(value.content), seconds)
    }

    /// Source: RFC 5652 §11.3
    private static func signingTime(_ attribute: ArraySlice<UInt8>) -> Int64? {
        let parts = Self.elements(attribute)
        guard parts.count == 2, parts[0].content.elementsEqual(SignedDataTemplate.signingTimeType) else { return nil }
        return Self.elements(parts[1].content).first.flatMap { SigningTime.epochSeconds($0.tag, $0.content) }
    }

    /// Returns consecutive elements; none if the bytes are not DER.
    private static func elements(_ bytes: ArraySlice<UInt8>) -> [(tag: UInt8, content: ArraySlice<UInt8>)] {
        var reader = DERReader(Array(bytes))
        var elements: [(tag: UInt8, content: ArraySlice<UInt8>)] = []
        while let element = reader.next() { elements.append(element) }
        return reader.isAtEnd ? elements : []
    }
}
