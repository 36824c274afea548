/// A host of Apple that makes merchant sessions.
///
/// A session belongs to the environment of the host that made it, so the host that the browser names is used. It must
/// be on this list, and the URL is built anew.
/// Source: Apple Pay on the Web, "Setting up your server"; Wallet Orders §8.2
struct AppleHost: Hashable, Sendable {
    let name: String
    let environment: Merchant.Environment
    let region: Merchant.Region
    /// True for the hosts of older documents.
    var isLegacy = false

    /// The URL at which sessions are requested.
    var sessionURL: String { "https://\(self.name)/paymentservices/paymentSession" }

    /// All hosts, by name.
    static let all: [String: AppleHost] = {
        var hosts = [
            AppleHost(name: "apple-pay-gateway.apple.com", environment: .production, region: .global),
            AppleHost(name: "cn-apple-pay-gateway.apple.com", environment: .production, region: .china),
            AppleHost(name: "apple-pay-gateway-cert.apple.com", environment: .sandbox, region: .global),
            AppleHost(name: "cn-apple-pay-gateway-cert.apple.com", environment: .sandbox, region: .china),
        ]
        let pods: [(prefix: String, count: Int, region: Merchant.Region)] = [
            ("apple-pay-gateway-nc-pod", 5, .global), ("apple-pay-gateway-pr-pod", 5, .global),
            ("cn-apple-pay-gateway-sh-pod", 3, .china), ("cn-apple-pay-gateway-tj-pod", 3, .china),
        ]
        for pod in pods {
            hosts += (1...pod.count).flatMap { number in
                ["", "-dr"].map { ending in
                    AppleHost(
                        name: "\(pod.prefix)\(number)\(ending).apple.com", environment: .production,
                        region: pod.region, isLegacy: true)
                }
            }
        }
        return Dictionary(uniqueKeysWithValues: hosts.map { ($0.name, $0) })
    }()

    /// Returns the host for a merchant whose page names none, and which has one environment only: the browser drops a
    /// session of the other one.
    static func standard(of merchant: Merchant) -> AppleHost? {
        let candidates = Self.all.values.filter { !$0.isLegacy && $0.isAllowed(for: merchant) }
        return candidates.min { ($0.rank, $0.name) < ($1.rank, $1.name) }
    }

    /// Production before sandbox, and the world before China.
    private var rank: Int { (self.environment == .production ? 0 : 2) + (self.region == .global ? 0 : 1) }

    func isAllowed(for merchant: Merchant) -> Bool {
        merchant.environments.contains(self.environment) && merchant.regions.contains(self.region)
            && (!self.isLegacy || merchant.hasLegacyHosts)
    }
}

extension AppleHost {
    /// Finds the host of a validation URL that a browser sent.
    ///
    /// Only the host of the URL is used, and only if it is on the list, letter for letter: anything that two parsers
    /// could read differently is refused before a connection is made.
    /// - Returns: nil for a URL that is not `https`, has user information, a port other than 443, a query, a fragment,
    ///   or characters beyond visible ASCII, and for any other host.
    init?(validationURL text: String) {
        let scheme = "https://"
        guard text.utf8.count <= 2048, text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }),
            text.prefix(scheme.count).lowercased() == scheme
        else { return nil }
        let rest = text.dropFirst(scheme.count)
        guard !rest.contains(where: { "?#@\\".contains($0) }) else { return nil }
        var authority = rest.prefix { $0 != "/" }.lowercased()
        if authority.hasSuffix(":443") { authority.removeLast(4) }
        guard let host = Self.all[authority] else { return nil }
        self = host
    }
}
