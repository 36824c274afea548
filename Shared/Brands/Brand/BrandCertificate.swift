import Cryptography
public import Model

/// The use and the expiry of a brand's certificate.
///
/// Source: Wallet Orders §7: watch the expiry, alert 30 days before
public struct BrandCertificate: Hashable, Sendable {
    /// The use of a certificate.
    public enum Use: String, Hashable, Sendable { case signing, intermediate, push }

    /// The order type that it belongs to.
    public let orderType: OrderTypeIdentifier
    /// The use of the certificate.
    public let use: Use
    /// The last second in which it is valid.
    public let notAfterEpochSeconds: Int64

    /// Describes a certificate that does not come from a loaded brand.
    public init(orderType: OrderTypeIdentifier, use: Use, notAfterEpochSeconds: Int64) {
        self.orderType = orderType
        self.use = use
        self.notAfterEpochSeconds = notAfterEpochSeconds
    }

    /// Returns the days until it expires, negative after that.
    public func days(fromEpochSeconds now: Int64) -> Double {
        (Double(self.notAfterEpochSeconds) - Double(now)) / 86_400
    }
}

extension Brand {
    /// The certificates whose expiry must be watched. A push token's key has none.
    public var certificates: [BrandCertificate] {
        let signing = self.signing.certificate.notAfterEpochSeconds
        var uses: [(BrandCertificate.Use, Int64)] = [
            (.signing, signing), (.intermediate, self.signing.intermediate.notAfterEpochSeconds),
        ]
        // The certificate that signs also authenticates to APNs.
        if case .certificate = self.push { uses.append((.push, signing)) }
        return uses.map {
            BrandCertificate(orderType: self.orderType, use: $0.0, notAfterEpochSeconds: $0.1)
        }
    }
}
