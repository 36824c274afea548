import Model

/// A merchant of the checkout role: its identity for Apple, its pages, its keys, and its payment settings.
///
/// Loaded from `merchants/<name>/merchant.json`.
struct Merchant: Sendable {
    /// Apple's systems for real payments and for tests.
    enum Environment: String, CaseIterable, Sendable { case production, sandbox }
    /// Apple's systems in China and elsewhere.
    enum Region: String, CaseIterable, Sendable {
        case global
        case china = "cn"
    }
    /// The parts of the service that a merchant uses.
    enum Capability: String, CaseIterable, Sendable { case orderTracking = "order_tracking" }

    /// A page that may take payments.
    struct Page: Sendable {
        let origin: PageOrigin
        /// The file that proves to Apple that the host belongs to the merchant; nil if another server has it.
        let association: [UInt8]?
        /// Hosts of pages that embed this one.
        let frames: Set<String>

        var claims: [MerchantClaim] { [.origin(self.origin)] }
    }

    /// The defaults of payment requests, and the pictures that a second device shows.
    struct Payment: Sendable {
        struct TouchIcon: Hashable, Sendable {
            let sizes: String
            let href: String
        }

        let countryCode: String
        let currencyCode: String
        let supportedNetworks: [String]
        let merchantCapabilities: [String]
        var touchIcons: [TouchIcon] = []
    }

    /// The shop's own service, which knows baskets and takes payments.
    struct Upstream: Sendable {
        /// Without a slash at its end.
        let url: String
        let secret: [UInt8]
        /// Addresses to which connections are allowed although they are not public.
        let addresses: [String]
        /// The roots of its certificate in PEM; nil for the system's.
        let rootsPEM: [UInt8]?
        /// True if payment tokens are passed through to it.
        let takesPayments: Bool
    }

    /// The handling of `confirm`.
    enum Confirmation: Sendable {
        case record
        /// The request is forwarded to a payment provider.
        case forward(Provider)

        struct Provider: Sendable {
            /// With `{id}` in place of the payment's identifier.
            let url: String
            /// The value of `Authorization`.
            let authorization: String
            let addresses: [String]
            /// The roots of its certificate in PEM; nil for the system's.
            let rootsPEM: [UInt8]?
        }
    }

    /// The name of its directory, which is its label in metrics and logs.
    let name: String
    let merchantIdentifier: String
    /// The name under which a platform has registered the merchant with Apple; nil for one that is its own.
    let partnerInternalMerchantIdentifier: String?
    let displayName: String
    /// The client certificate for Apple; nil for a merchant whose merchant sessions are not requested here.
    let identity: MerchantIdentity?
    let environments: Set<Environment>
    let regions: Set<Region>
    /// True if the hosts of Apple's older documents may be named.
    let hasLegacyHosts: Bool
    let orderTypes: [OrderTypeIdentifier]
    let capabilities: Set<Capability>
    var pages: [Page]
    let payment: Payment?
    let upstream: Upstream?
    let confirmation: Confirmation
    /// Web service URLs of others that orders of this merchant may name.
    let foreignWebServices: [String]
    var keys: [APIKey]
    /// Systems that send signed events.
    var webhooks: [Webhook]
    /// Files that hold its secrets, by their paths.
    let secretFiles: [String]

    /// The identifier in requests of merchant sessions. Source: Apple Pay on the Web, "Requesting an Apple Pay payment
    /// session"; Apple Pay Web Merchant Registration API
    var sessionIdentifier: String { self.partnerInternalMerchantIdentifier ?? self.merchantIdentifier }
}

/// All merchants, found by the origin, host, key or webhook in a request.
struct Merchants: Sendable {
    let all: [Merchant]
    private let pages: [PageOrigin: (merchant: Int, page: Merchant.Page)]
    private let webhooks: [String: (merchant: Int, webhook: Webhook)]

    init(_ merchants: [Merchant] = []) {
        self.all = merchants.sorted { $0.name < $1.name }
        var pages: [PageOrigin: (merchant: Int, page: Merchant.Page)] = [:]
        var webhooks: [String: (merchant: Int, webhook: Webhook)] = [:]
        for (index, merchant) in self.all.enumerated() {
            for page in merchant.pages { pages[page.origin] = (index, page) }
            for webhook in merchant.webhooks { webhooks[webhook.name] = (index, webhook) }
        }
        self.pages = pages
        self.webhooks = webhooks
    }

    /// The merchant of a page, and the page.
    subscript(origin: PageOrigin) -> (merchant: Merchant, page: Merchant.Page)? {
        self.pages[origin].map { (self.all[$0.merchant], $0.page) }
    }

    /// Returns a webhook by its name, and its merchant.
    func webhook(_ name: String) -> (merchant: Merchant, webhook: Webhook)? {
        self.webhooks[name].map { (self.all[$0.merchant], $0.webhook) }
    }

    /// Returns the merchant that a key belongs to. Compares every key in constant time.
    func caller(key: String) -> Caller? {
        let digest = APIKey.digest(key)
        var found: Caller?
        for merchant in self.all {
            for key in merchant.keys where key.matches(digest) { found = Caller(merchant: merchant, key: key) }
        }
        return found
    }

    /// Returns the page whose association file a host serves.
    func page(host: String) -> Merchant.Page? {
        self.pages.values.map(\.page).filter { $0.origin.host == host && $0.association != nil }
            .min { $0.origin.port < $1.origin.port }
    }

    /// True if any page is on a host.
    func serves(host: String) -> Bool { self.pages.keys.contains { $0.host == host } }
}

/// The reason why a merchant cannot be loaded, in a sentence for the person who maintains its directory.
struct MerchantError: Error, Hashable, Sendable, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}
