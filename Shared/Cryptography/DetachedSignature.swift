/// A detached CMS signature that `SigningIdentity` made, with the two parts in which it differs from others over the
/// same content.
public struct DetachedSignature: Hashable, Sendable {
    /// The whole structure, in DER.
    public let der: [UInt8]
    /// The value that only the key can make. It is at the end of the structure.
    public let value: [UInt8]
    /// The signed attribute signingTime.
    public let signingEpochSeconds: Int64

    init(der: [UInt8], value: [UInt8], signingEpochSeconds: Int64) {
        self.der = der
        self.value = value
        self.signingEpochSeconds = signingEpochSeconds
    }

    /// Reads a signature back; nil for bytes of another structure. Nothing is verified.
    ///
    /// Source: RFC 5652 §3, §5.1, §5.3
    public init?(der: [UInt8]) {
        // ContentInfo, [0], SignedData; in it the signerInfos are the last element.
        guard let contentInfo = Self.elements(der[...]).first?.content,
            let explicit = Self.elements(contentInfo).last?.content,
            let signedData = Self.elements(explicit).first?.content,
            let signerInfos = Self.elements(signedData).last, signerInfos.tag == DER.set,
            let signerInfo = Self.elements(signerInfos.content).first?.content
        else { return nil }
        let parts = Self.elements(signerInfo)
        guard let value = parts.last, value.tag == DER.octetString,
            let attributes = parts.first(where: { $0.tag == DER.context0 }),
            let seconds = Self.signingTime(attributes.content)
        else { return nil }
        self.init(der: der, value: Array(value.content), signingEpochSeconds: seconds)
    }

    /// Source: RFC 5652 §11.3
    private static func signingTime(_ attributes: ArraySlice<UInt8>) -> Int64? {
        for attribute in Self.elements(attributes) {
            let parts = Self.elements(attribute.content)
            guard parts.count == 2, parts[0].content.elementsEqual(SignedDataTemplate.signingTimeType) else { continue }
            return Self.elements(parts[1].content).first.flatMap { SigningTime.epochSeconds($0.tag, $0.content) }
        }
        return nil
    }

    /// Returns consecutive elements; none if the bytes are not DER.
    private static func elements(_ bytes: ArraySlice<UInt8>) -> [(tag: UInt8, content: ArraySlice<UInt8>)] {
        var reader = DERReader(Array(bytes))
        var elements: [(tag: UInt8, content: ArraySlice<UInt8>)] = []
        while let element = reader.next() { elements.append(element) }
        return reader.isAtEnd ? elements : []
    }
}
