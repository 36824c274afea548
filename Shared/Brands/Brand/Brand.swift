public import Cryptography
public import Model
public import Packaging
public import Tokens

/// One order type with everything needed to package, sign and push its orders.
///
/// Source: Design §6
public struct Brand: Sendable {
    /// The type of its orders.
    public let orderType: OrderTypeIdentifier
    /// The additions to orders.
    public let rules: BrandRules
    /// The identity that signs packages.
    public let signing: SigningIdentity
    /// The authentication to APNs.
    public let push: PushAuthentication
    /// The options of its notifications.
    public let pushOptions: PushOptions
    /// Its files by their name in packages.
    public let assets: [String: Asset]
    /// The hosts that pictures named by URL in orders may come from.
    public let pictureHosts: PictureHosts
    /// The secrets that its tokens and links are made with; nil if it shares them with other brands.
    public let tokenSecrets: TokenSecrets?

    /// The identifier of the certificates that are inside each signature: 32 hexadecimal digits.
    public var signer: String { PackageBuilder.signer(of: self.signing) }
}

extension PackageBuilder {
    /// Makes a builder of one brand's packages.
    public init(_ brand: Brand) {
        self.init(signing: brand.signing, assets: brand.assets, pictureHosts: brand.pictureHosts)
    }
}

extension Brand {
    /// The identifier of everything that determines the package of an order: certificates, assets, defaults and rules.
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

    /// Returns true if two values came from the same loading; objects made from one are then valid for the other.
    public func isSameLoading(as other: Brand) -> Bool { self.signing === other.signing }
}

/// All brands of a service.
public struct Brands: Sendable {
    private let brands: [Brand]
    private let indices: [OrderTypeIdentifier: Int]

    /// - Parameter brands: each order type once.
    public init(_ brands: [Brand]) {
        self.brands = brands.sorted { precedes($0.orderType.rawValue, $1.orderType.rawValue) }
        self.indices = Dictionary(
            self.brands.enumerated().map { ($1.orderType, $0) }, uniquingKeysWith: { first, _ in first })
    }

    /// The brand of an order type, nil if there is none.
    public subscript(orderType: OrderTypeIdentifier) -> Brand? { self.indices[orderType].map { self.brands[$0] } }

    /// Returns true if there is a brand for an order type.
    public func serves(_ orderType: OrderTypeIdentifier) -> Bool { self.indices[orderType] != nil }

    /// All order types, sorted.
    public var orderTypes: [OrderTypeIdentifier] { self.brands.map(\.orderType) }
}
