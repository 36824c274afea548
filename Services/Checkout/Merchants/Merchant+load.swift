import Cryptography
import Fetch
import HTTPServer
import Model
import Operations

extension Merchant {
    /// The facts that loading needs besides the files.
    struct Loading: Sendable {
        /// Returns true if there is a brand for an order type.
        let serves: @Sendable (OrderTypeIdentifier) -> Bool
        /// Waybill's own topics, which no webhook may write to.
        let topics: Topics
        /// True while pages of this machine may use http and fakes stand in for Apple.
        let isDevelopment: Bool
    }

    /// Largest file that is read, in bytes.
    private static let fileLimit = 1 << 20

    /// Reads a merchant's directory. Blocks; not for event loops.
    ///
    /// Strict: an unknown member is refused, since it is usually a typing error.
    static func load(
        directory: String, name: String, _ loading: Loading, nowEpochSeconds: Int64
    ) throws(MerchantError) -> Merchant {
        do throws(MerchantError) {
            let content = try Self.content("merchant.json", directory)
            let json: JSON
            do { json = try JSON(parsing: content) } catch { throw MerchantError("merchant.json: \(error)") }
            return try Merchant(json, directory: directory, name: name, loading, nowEpochSeconds)
        } catch {
            throw MerchantError("\(name): \(error)")
        }
    }

    private init(
        _ json: JSON, directory: String, name: String, _ loading: Loading, _ now: Int64
    ) throws(MerchantError) {
        var file = try JSONMembers(json, path: "$") { MerchantError($0) }
        var secretFiles: [String] = []
        self.name = name
        let identifier = try file.optionalText("merchantIdentifier")
        guard identifier.map(Self.isMerchantIdentifier) != false else {
            throw file.wrong("merchantIdentifier", "must look like merchant.com.example.shop")
        }
        self.partnerInternalMerchantIdentifier = try file.optionalText("partnerInternalMerchantIdentifier")
        if let partner = self.partnerInternalMerchantIdentifier {
            guard (1...255).contains(partner.utf8.count), partner.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
                throw file.wrong(
                    "partnerInternalMerchantIdentifier",
                    "must be the name with which the merchant was registered, 1 to 255 printable ASCII characters")
            }
        }
        self.displayName = try file.text("displayName")
        guard self.displayName.count <= 64 else { throw file.wrong("displayName", "may have 64 characters at most") }
        self.identity = try Self.identity(&file, directory, identifier, now, &secretFiles)
        guard let identifier = identifier ?? self.identity?.merchantIdentifier else {
            throw file.wrong("merchantIdentifier", "is missing, and there is no certificate to read it from")
        }
        self.merchantIdentifier = identifier
        self.environments = try file.choices("environments", default: [.production])
        self.regions = try file.choices("regions", default: [.global])
        self.hasLegacyHosts = try file.flag("legacyHosts")
        if loading.isDevelopment, self.identity != nil, self.environments.contains(.production) {
            throw file.wrong(
                "environments", "names production, which is refused while a development setting is on")
        }
        self.orderTypes = try Self.orderTypes(&file)
        self.capabilities = try file.choices("capabilities", default: [])
        if self.capabilities.contains(.orderTracking) {
            guard !self.orderTypes.isEmpty else {
                throw file.wrong("orderTypeIdentifiers", "must name a type for the capability order_tracking")
            }
            for type in self.orderTypes where !loading.serves(type) {
                throw file.wrong("orderTypeIdentifiers", "no brand is loaded for \(type)")
            }
        }
        self.pages = try Self.pages(&file, directory, loading)
        self.payment = try Self.payment(&file)
        self.upstream = try Self.upstream(&file, directory, &secretFiles)
        self.confirmation = try Self.confirmation(&file, directory, &secretFiles)
        self.foreignWebServices = try file.optionalTexts("foreignWebServices") ?? []
        for url in self.foreignWebServices where !Self.isWebServiceURL(url) {
            throw file.wrong(
                "foreignWebServices", "must be https URLs without query, fragment, user and /v1 at the end")
        }
        self.keys = try Self.keys(&file, Set(self.orderTypes))
        self.webhooks = try Self.webhooks(&file, directory, loading.topics, &secretFiles)
        try file.refuseRest()
        self.secretFiles = secretFiles
    }

    /// Source: Apple Pay on the Web, "Configuring your environment"
    static func isMerchantIdentifier(_ text: String) -> Bool {
        let labels = text.split(separator: ".", omittingEmptySubsequences: false)
        return labels.first == "merchant" && labels.count >= 2 && text.utf8.count <= 255
            && labels.dropFirst().allSatisfy { label in
                !label.isEmpty && label.utf8.allSatisfy { $0.isLetter || $0.isDigit || $0 == UInt8(ascii: "-") }
            }
    }

    /// True for the base URL of a web service as orders name it.
    static func isWebServiceURL(_ url: String) -> Bool {
        guard url.hasPrefix("https://"), url.utf8.count <= 2048, url.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        else { return false }
        let rest = url.dropFirst("https://".count)
        let host = rest.prefix { $0 != "/" }
        let parts = host.split(separator: ":", omittingEmptySubsequences: false)
        let isHost = (1...2).contains(parts.count) && PageOrigin.isHost(parts[0].lowercased())
        let isPort = parts.count < 2 || Int(parts[1]).map { (1...65_535).contains($0) } == true
        let path = rest.drop { $0 != "/" }
        return isHost && isPort && !rest.contains { "?#@\\".contains($0) }
            && !(path.hasSuffix("/v1") || path.hasSuffix("/v1/"))
    }

    private static func identity(
        _ file: inout JSONMembers<MerchantError>, _ directory: String, _ merchant: String?, _ now: Int64,
        _ secretFiles: inout [String]
    ) throws(MerchantError) -> MerchantIdentity? {
        let (certificate, key) = (try file.optionalFile("certificate"), try file.optionalFile("key"))
        guard let certificate, let key else {
            if certificate != nil { throw file.wrong("certificate", "must be given together with key") }
            if key != nil { throw file.wrong("key", "must be given together with certificate") }
            return nil
        }
        secretFiles.append("\(directory)/\(key)")
        return try MerchantIdentity(
            certificatePEM: Self.content(certificate, directory),
            keyPEM: Self.content(key, directory), merchantIdentifier: merchant, nowEpochSeconds: now)
    }

    private static func orderTypes(_ file: inout JSONMembers<MerchantError>) throws(MerchantError)
        -> [OrderTypeIdentifier]
    {
        var types: [OrderTypeIdentifier] = []
        for text in try file.optionalTexts("orderTypeIdentifiers") ?? [] {
            do { types.append(try OrderTypeIdentifier(text)) } catch {
                throw file.wrong("orderTypeIdentifiers", "\(error)")
            }
        }
        return types
    }

    private static func pages(
        _ file: inout JSONMembers<MerchantError>, _ directory: String, _ loading: Loading
    ) throws(MerchantError) -> [Page] {
        var pages: [Page] = []
        for (text, members) in try file.table("origins") {
            var members = members
            guard let origin = PageOrigin(text) else {
                throw file.wrong("origins", "\"\(text)\" is not an origin such as https://shop.example.com")
            }
            guard origin.isSecure || (loading.isDevelopment && origin.isLoopback) else {
                throw file.wrong("origins", "\"\(text)\" must be https")
            }
            let association = try members.optionalFile("association")
            let content: [UInt8]? =
                if let association { try Self.content(association, directory) } else { nil }
            let frames = try members.optionalTexts("frames") ?? []
            for host in frames where !PageOrigin.isHost(host) {
                throw members.wrong("frames", "must be hosts in small letters, without scheme and port")
            }
            try members.refuseRest()
            pages.append(Page(origin: origin, association: content, frames: Set(frames)))
        }
        return pages
    }

    private static func payment(_ file: inout JSONMembers<MerchantError>) throws(MerchantError) -> Payment? {
        guard var members = try file.optionalMembers("payment") else { return nil }
        var payment = Payment(
            countryCode: try members.text("countryCode"),
            currencyCode: try members.text("currencyCode"),
            supportedNetworks: try members.optionalTexts("supportedNetworks") ?? [],
            merchantCapabilities: try members.optionalTexts("merchantCapabilities") ?? ["supports3DS"])
        guard !payment.supportedNetworks.isEmpty else {
            throw members.wrong("supportedNetworks", "must name one at least")
        }
        guard payment.merchantCapabilities.contains("supports3DS") else {
            throw members.wrong("merchantCapabilities", "must have supports3DS")
        }
        for icon in try members.list("touchIcons") {
            var icon = icon
            let made = Payment.TouchIcon(sizes: try icon.text("sizes"), href: try icon.text("href"))
            guard made.href.hasPrefix("https://") else { throw icon.wrong("href", "must start with https://") }
            try icon.refuseRest()
            payment.touchIcons.append(made)
        }
        try members.refuseRest()
        return payment
    }

    private static func upstream(
        _ file: inout JSONMembers<MerchantError>, _ directory: String, _ secretFiles: inout [String]
    ) throws(MerchantError) -> Upstream? {
        guard var members = try file.optionalMembers("upstream") else { return nil }
        let url = try members.text("url")
        guard Self.isWebServiceURL(url) else { throw members.wrong("url", "must be an absolute https URL") }
        guard let secret = try members.optionalFile("secret") else {
            throw members.wrong("secret", "give the name of a file")
        }
        secretFiles.append("\(directory)/\(secret)")
        let upstream = Upstream(
            url: url.hasSuffix("/") ? String(url.dropLast()) : url,
            secret: try Self.secret(secret, directory), addresses: try Self.addresses(&members),
            rootsPEM: try Self.roots(&members, directory), takesPayments: try members.flag("takesPayments"))
        try members.refuseRest()
        return upstream
    }

    private static func confirmation(
        _ file: inout JSONMembers<MerchantError>, _ directory: String, _ secretFiles: inout [String]
    ) throws(MerchantError) -> Confirmation {
        guard var members = try file.optionalMembers("confirm") else { return .record }
        switch try members.optionalText("mode") ?? "record" {
        case "record":
            try members.refuseRest()
            return .record
        case "forward":
            let url = try members.text("url")
            guard url.contains("{id}"), Self.isWebServiceURL(url.replacing("{id}", with: "x")) else {
                throw members.wrong("url", "must be an https URL with {id} in it")
            }
            guard let secret = try members.optionalFile("authorization") else {
                throw members.wrong("authorization", "give the name of a file with the value of Authorization")
            }
            secretFiles.append("\(directory)/\(secret)")
            let line = try Self.secret(secret, directory)
            let provider = Confirmation.Provider(
                url: url, authorization: String(decoding: line, as: UTF8.self),
                addresses: try Self.addresses(&members), rootsPEM: try Self.roots(&members, directory))
            try members.refuseRest()
            return .forward(provider)
        default: throw members.wrong("mode", "must be record or forward")
        }
    }

    private static func keys(
        _ file: inout JSONMembers<MerchantError>, _ orderTypes: Set<OrderTypeIdentifier>
    ) throws(MerchantError) -> [APIKey] {
        var keys: [APIKey] = []
        for members in try file.list("keys") {
            var members = members
            let name = try members.text("name")
            let digest = try members.text("sha256")
            let scopes: Set<APIKey.Scope> = try members.choices("scopes", default: [])
            var types = orderTypes
            if let texts = try members.optionalTexts("orderTypeIdentifiers") {
                types = orderTypes.filter { texts.contains($0.rawValue) }
                guard types.count == Set(texts).count else {
                    throw members.wrong("orderTypeIdentifiers", "must be some of the merchant's own")
                }
            }
            guard let key = APIKey(name: name, sha256: digest, scopes: scopes, orderTypes: types) else {
                throw members.wrong("sha256", "must be the SHA-256 of the key, 64 hexadecimal digits")
            }
            try members.refuseRest()
            if let other = keys.first(where: { $0.isSame(as: key) }) {
                throw members.wrong("sha256", "is that of the key \(other.name) already")
            }
            keys.append(key)
        }
        return keys
    }

    private static func webhooks(
        _ file: inout JSONMembers<MerchantError>, _ directory: String, _ topics: Topics, _ secretFiles: inout [String]
    ) throws(MerchantError) -> [Webhook] {
        var webhooks: [Webhook] = []
        for (name, members) in try file.table("webhooks") {
            var members = members
            guard CheckoutRoute.isSegment(name) else {
                throw file.wrong("webhooks", "\"\(name)\" must be 1 to 128 letters, digits, '.', '_', '~' and '-'")
            }
            guard let scheme: Webhook.Scheme = try members.choice("signature") else {
                throw members.wrong(
                    "signature", "is missing: give \(Webhook.Scheme.allCases.map(\.rawValue).joined(separator: ", "))")
            }
            let topic = try members.text("topic")
            guard Topics.isName(topic) else { throw members.wrong("topic", "\"\(topic)\" is not a topic's name") }
            guard !topics.have(topic) else { throw members.wrong("topic", "\(topic) is Waybill's own") }
            let secret = try members.file("secret")
            secretFiles.append("\(directory)/\(secret)")
            var secrets = try Self.secrets(secret, directory, most: Webhook.secretLimit)
            if scheme == .adyen {
                let keys = secrets.compactMap { Hexadecimal.bytes(String(decoding: $0, as: UTF8.self).lowercased()) }
                guard keys.count == secrets.count else {
                    throw MerchantError("\(secret): a key of Adyen must be hexadecimal digits")
                }
                secrets = keys
            }
            guard scheme != .basic || secrets.allSatisfy({ $0.contains(UInt8(ascii: ":")) }) else {
                throw MerchantError("\(secret): a line must be user:password")
            }
            let key = try members.optionalText("key")?.split(separator: ".").map(String.init) ?? []
            let limits = Webhook.bodyLimits
            let limit = Int(clamping: try members.optionalInteger("bodyLimit") ?? Int64(Webhook.defaultBodyLimit))
            guard limits.contains(limit) else {
                throw members.wrong(
                    "bodyLimit", "must be a number of bytes from \(limits.lowerBound) to \(limits.upperBound)")
            }
            try members.refuseRest()
            webhooks.append(
                Webhook(name: name, topic: topic, scheme: scheme, secrets: secrets, key: key, bodyLimit: limit))
        }
        return webhooks
    }

    private static func addresses(_ members: inout JSONMembers<MerchantError>) throws(MerchantError) -> [String] {
        let addresses = try members.optionalTexts("addresses") ?? []
        for address in addresses where IPAddress(address) == nil {
            throw members.wrong("addresses", "must be IP addresses")
        }
        return addresses
    }

    /// Reads a PEM file; nil if none is named.
    private static func roots(
        _ members: inout JSONMembers<MerchantError>, _ directory: String
    ) throws(MerchantError) -> [UInt8]? {
        guard let roots = try members.optionalFile("roots") else { return nil }
        return try Self.content(roots, directory)
    }

    /// Reads the secret in the first line of a file.
    private static func secret(_ name: String, _ directory: String) throws(MerchantError) -> [UInt8] {
        try Self.secrets(name, directory, most: 1)[0]
    }

    /// Reads the secrets in the first lines of a file, one at least.
    private static func secrets(_ name: String, _ directory: String, most: Int) throws(MerchantError) -> [[UInt8]] {
        let lines = try Self.content(name, directory).split { $0 == .lineFeed || $0 == .carriageReturn }.prefix(most)
        for line in lines.isEmpty ? [[]] : lines {
            guard (16...4096).contains(line.count), line.allSatisfy({ (0x20...0x7E).contains($0) }) else {
                throw MerchantError("\(name): a line must be a secret of 16 printable characters at least")
            }
        }
        return lines.map(Array.init)
    }

    private static func content(_ name: String, _ directory: String) throws(MerchantError) -> [UInt8] {
        do {
            return try FileContent.read(name, inside: directory, limit: Self.fileLimit)
        } catch {
            throw MerchantError("\(name): \(error)")
        }
    }
}
