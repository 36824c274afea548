import Cryptography
public import Model

/// A certificate of a brand that ends one day.
///
/// Source: Wallet Orders §7: watch the end, alert 30 days before
public struct BrandCertificate: Hashable, Sendable {
    /// What it is used for.
    public enum Use: String, Hashable, Sendable { case signing, intermediate, push }

    /// Whose it is.
    public let orderType: OrderTypeIdentifier
    /// What it is used for.
    public let use: Use
    /// Last second in which it holds.
    public let notAfterEpochSeconds: Int64

    /// A certificate that is at hand otherwise than in a brand.
    public init(orderType: OrderTypeIdentifier, use: Use, notAfterEpochSeconds: Int64) {
        self.orderType = orderType
        self.use = use
        self.notAfterEpochSeconds = notAfterEpochSeconds
    }

    /// Days until it ends, negative when it has.
    public func days(fromEpochSeconds now: Int64) -> Double {
        (Double(self.notAfterEpochSeconds) - Double(now)) / 86_400
    }
}

extension Brand {
    /// The certificates whose end somebody must watch. A push token's key has no end.
    public var certificates: [BrandCertificate] {
        let signing = self.signing.certificate.notAfterEpochSeconds
        var uses: [(BrandCertificate.Use, Int64)] = [
            (.signing, signing), (.intermediate, self.signing.intermediate.notAfterEpochSeconds),
        ]
        // The certificate that signs is shown to APNs as well.
        if case .certificate = self.push { uses.append((.push, signing)) }
        return uses.map {
            BrandCertificate(orderType: self.orderType, use: $0.0, notAfterEpochSeconds: $0.1)
        }
    }
}
