public import Cryptography
public import Model

/// One order type with everything that is needed to package, sign and push its orders.
///
/// Source: DESIGN §6
public struct Brand: Sendable {
    /// Which orders it is for.
    public let orderType: OrderTypeIdentifier
    /// What it adds to orders.
    public let rules: BrandRules
    /// What signs packages.
    public let signing: SigningIdentity
    /// What shows APNs who is pushing.
    public let push: PushAuthentication
    /// How APNs is to treat its notifications.
    public let pushOptions: PushOptions
    /// Its files by their name in packages.
    public let assets: [String: Asset]
    /// Where pictures that orders name by URL may come from.
    public let pictureHosts: PictureHosts

    /// Stands for the certificates that are inside each signature: 32 hexadecimal digits.
    public var signer: String {
        String(SHA256.hex(self.signing.certificate.der + self.signing.intermediate.der).prefix(32))
    }
}

extension Brand {
    /// Stands for everything that decides what a package of an order is: certificates, assets, defaults.
    public var stamp: String {
        let assets = self.assets.values.map(\.entryDigest.rawValue).sorted(by: precedes)
        let rules: JSON = [
            "merchant": self.rules.merchant.map { .object($0) } ?? .null,
            "returnInfo": self.rules.returnInfo.map { .object($0) } ?? .null,
            "changeNotifications": self.rules.changeNotifications.map { .string($0.rawValue) } ?? .null,
            "passUnknownMembers": .bool(self.rules.passUnknownMembers), "url": .string(self.rules.webServiceURL),
        ]
        return SHA256.hex(Array((assets + [self.signer]).joined(separator: " ").utf8) + rules.serialized)
    }

    /// Whether two values came from one loading; then all made of one serves for the other.
    public func isSameLoading(as other: Brand) -> Bool { self.signing === other.signing }
}

/// All brands of a service.
public struct Brands: Sendable {
    private let brands: [Brand]
    private let indices: [OrderTypeIdentifier: Int]

    /// - Parameter brands: each order type once.
    init(_ brands: [Brand]) {
        self.brands = brands.sorted { precedes($0.orderType.rawValue, $1.orderType.rawValue) }
        self.indices = Dictionary(
            self.brands.enumerated().map { ($1.orderType, $0) }, uniquingKeysWith: { first, _ in first })
    }

    /// The brand of an order type, nil if there is none.
    public subscript(orderType: OrderTypeIdentifier) -> Brand? { self.indices[orderType].map { self.brands[$0] } }

    /// Whether there is a brand for an order type.
    public func serves(_ orderType: OrderTypeIdentifier) -> Bool { self.indices[orderType] != nil }

    /// All order types, sorted.
    public var orderTypes: [OrderTypeIdentifier] { self.brands.map(\.orderType) }
}
