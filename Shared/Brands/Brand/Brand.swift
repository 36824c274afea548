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
    /// The rules for receipts and labels named by URL in orders.
    public let documents: DocumentRules
    /// The time for which orders that ended are kept; nil keeps them.
    public let retention: OrderRetention?
    /// The secrets that its tokens and links are made with; nil if it shares them with other brands.
    public let tokenSecrets: TokenSecrets?

    /// The identifier of the certificates that are inside each signature: 32 hexadecimal digits.
    public var signer: String { PackageBuilder.signer(of: self.signing) }
}

extension PackageBuilder {
    /// Makes a builder of one brand's packages.
    public init(_ brand: Brand) {
        self.init(
            signing: brand.signing, assets: brand.assets, pictureHosts: brand.pictureHosts, documents: brand.documents)
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

/// The reason why a brand cannot be loaded, in a sentence for the person who maintains its directory.
public struct BrandError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kind of error, for programs.
    public enum Code: Hashable, Sendable {
        /// A file or directory is missing, unreadable, too large or not a plain file.
        case file
        /// brand.json or the address of the web service has an invalid value.
        case configuration
        /// Certificate, key or intermediate do not meet the requirements.
        case certificate
        /// A file in the assets cannot go into a package.
        case asset
    }

    public let code: Code
    /// The error, for people: the file, the place in it, the correction.
    public let message: String
    public var description: String { self.message }

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }
}

/// The authentication of a brand to APNs.
///
/// Source: Wallet Orders §4.4
public enum PushAuthentication: Hashable, Sendable, CustomStringConvertible {
    /// The order type's certificate as a TLS client certificate, followed by its intermediate.
    case certificate(chainPEM: [UInt8], keyPEM: [UInt8])
    /// A token signed with a key of the team.
    case token(keyPEM: [UInt8], keyIdentifier: String, teamIdentifier: String)

    /// A description without the keys, so that it may be logged.
    public var description: String {
        switch self {
        case .certificate: "certificate"
        case .token(_, let key, let team): "token (key \(key), team \(team))"
        }
    }
}

/// The options of a brand's notifications for APNs.
///
/// Separate from the brand's authentication, so that changing them needs no new connection.
/// Source: Wallet Orders §4.1, §4.3
public struct PushOptions: Hashable, Sendable {
    /// `apns-push-type`
    public enum Kind: String, Hashable, Sendable, CaseIterable { case background, alert }

    /// `apns-priority`
    public enum Priority: Int64, Hashable, Sendable, CaseIterable {
        /// The device's power has precedence over everything else.
        case considerate = 1
        /// Delivered with regard to the device's power.
        case normal = 5
        /// Delivered immediately; an error with `.background`.
        case immediate = 10
    }

    /// Seconds that APNs may keep a notification, at most 30 days. Source: Wallet Orders §4.3
    static let expirationRange: ClosedRange<Int64> = 0...2_592_000
    /// Bytes of `apns-collapse-id`. Source: Wallet Orders §4.3
    public static let collapseIdentifierLimit = 64

    public var kind = Kind.background
    public var priority = Priority.normal
    /// The time for which APNs keeps a notification for a device that is off; 0: it tries once.
    public var expirationSeconds: Int64 = 604_800
    /// `apns-collapse-id`: visible ASCII, 1 to 64 bytes; nil sends none.
    public var collapseIdentifier: String?

    public init() {}

    /// Returns `apns-expiration` of a notification sent at this time: 0, which means not to keep it, or a future time.
    public func expirationEpochSeconds(nowEpochSeconds now: Int64) -> Int64 {
        self.expirationSeconds == 0 ? 0 : now + self.expirationSeconds
    }
}

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

/// The time for which a brand keeps orders that ended: `retention` in `brand.json`.
public struct OrderRetention: Hashable, Sendable {
    /// A day to a century.
    static let daysRange: ClosedRange<Int64> = 1...36_500

    /// Days since the last version of an order that ended.
    public let endedDays: Int64

    /// Returns true if an order is to be removed: it is completed or cancelled, and its last version is older than the
    /// time for which it is kept.
    ///
    /// An order has no moment of its end, so its last version counts: a return, a correction or a renewal of packages
    /// begins the time anew.
    public func isOver(_ state: OrderState, nowEpochSeconds now: Int64) -> Bool {
        !state.isRemoved && state.document.isEnded
            && self.isOver(modifiedEpochSeconds: state.modifiedEpochSeconds, nowEpochSeconds: now)
    }

    /// Returns true if an order that ended with a version of this age is to be removed.
    public func isOver(modifiedEpochSeconds: Int64, nowEpochSeconds now: Int64) -> Bool {
        now - modifiedEpochSeconds > self.endedDays * 86_400
    }
}
