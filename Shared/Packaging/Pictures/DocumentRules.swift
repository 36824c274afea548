import Cryptography
import Model

/// The rules for the own documents of a brand's orders, receipts and labels by URL: `documents` in `brand.json`.
public struct DocumentRules: Sendable {
    /// The hosts that they may be fetched from, and the parts of URLs that do not distinguish them.
    public var hosts = PictureHosts.none
    /// The value of `Authorization` for one of the hosts; nil if URLs grant access by themselves.
    public var authorization: Authorization?
    /// The most bytes of a document.
    public var sizeLimit = 1 << 20
    /// The most bytes of all documents of an order.
    public var orderLimit = 4 << 20
    /// The most bytes of all documents of the brand in Redis.
    public var brandLimit: Int64 = 1 << 30

    /// A secret for one host.
    public struct Authorization: Hashable, Sendable {
        public let host: String
        public let port: Int
        public let value: String

        public init(host: String, port: Int, value: String) {
            self.host = host
            self.port = port
            self.value = value
        }
    }

    /// The limits that may be set for a document and for an order: with them a package is within Apple's limit.
    public static let sizeRange: ClosedRange<Int64> = 1024...4_500_000
    /// The limits that may be set for a brand, up to a tebibyte.
    public static let brandRange: ClosedRange<Int64> = 0...(1 << 40)
    /// The longest value of `Authorization`, in bytes.
    public static let authorizationLimit = 4096

    /// No host: no document is fetched.
    public static let none = DocumentRules()

    public init() {}

    /// Returns the identifier of a document within its order: 16 hexadecimal digits.
    public func identifier(of url: String) -> String {
        String(SHA256.hex(Array(self.hosts.identity(of: url).utf8)).prefix(16))
    }

    /// Returns the reason why a URL can never be fetched, for `BrandRules.linkFault`. Nothing of it is repeated but the
    /// host, since the rest may have a key.
    public func fault(of url: String) -> String? {
        if self.hosts.allows(url: url) { return nil }
        guard let host = PictureHosts.host(of: url) else {
            return "must be an https URL of at most 2048 plain characters with a plain host, or the name of a file"
        }
        return "must be a URL of a host that documents.hosts in brand.json lists, or the name of a file; "
            + "its host is \(host)"
    }
}
