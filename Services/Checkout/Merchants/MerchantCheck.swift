import Fetch
import Glibc
import Logging
import Model
import Operations

/// The part of the check before a start about merchants: their files, and the services that are called for them.
///
/// No service is sent a request. Bounded: each of at most `most` services is tried once, for at most `limit`.
struct MerchantCheck: Sendable {
    private static let limit = Duration.seconds(3)
    private static let most = 200

    /// A service that is called for a merchant.
    private struct Service: Sendable {
        let merchant: String
        /// The member of merchant.json that names it.
        let member: String
        let request: FetchRequest
    }

    private let directory: String
    private let library: Result<MerchantLibrary, MerchantError>
    private let fetching: FetcherConfiguration
    private let limit: Duration

    init(_ directory: String, _ settings: CheckoutSettings, patience: Int) {
        self.directory = directory
        self.limit = Self.limit * patience
        self.library = Result { () throws(MerchantError) in
            try MerchantLibrary(
                directory: directory, loading: settings.loading, isStrict: false, isEmptyAllowed: true,
                logger: Logger(label: "check") { _ in SwiftLogNoOpLogHandler() })
        }
        var fetching = settings.applePay
        fetching.concurrency = Self.most
        fetching.queueLimit = Self.most
        self.fetching = fetching
    }

    private var merchants: [Merchant] { (try? self.library.get())?.merchants.all ?? [] }

    /// The topics of webhooks.
    var topics: [KafkaTopicNeed] {
        let webhooks = self.merchants.flatMap(\.webhooks)
        let limits = Dictionary(webhooks.map { ($0.topic, $0.bodyLimit) }) { max($0, $1) }
        return limits.sorted { $0.key < $1.key }.map { topic, limit in
            KafkaTopicNeed(
                topic, isWritten: true, messageBytes: min(limit, Webhook.usualBody), largestBytes: limit)
        }
    }

    var checks: [PreflightCheck] {
        [
            PreflightCheck(.merchants, usesNetwork: false) { self.files(nowEpochSeconds: Int64(time(nil))) },
            PreflightCheck(.upstreams) { await self.upstreams() },
        ]
    }

    private func files(nowEpochSeconds now: Int64) -> [PreflightFinding] {
        let failures: [String: MerchantError]
        switch self.library {
        case .success(let library): failures = library.failures
        case .failure(let error):
            return [PreflightFinding(.merchants, "\(error)", fix: "correct \(SettingKey.merchants.rawValue)")]
        }
        var findings = failures.sorted { $0.key < $1.key }.map { name, error in
            PreflightFinding(.merchants, "\(error)", fix: "correct the file in \(self.directory)/\(name)")
        }
        if findings.isEmpty, self.merchants.isEmpty {
            findings.append(
                PreflightFinding(
                    .merchants, "\(self.directory): there is no merchant",
                    fix: "create a directory with a merchant.json in it, or correct \(SettingKey.merchants.rawValue)"))
        }
        for merchant in self.merchants {
            for path in merchant.secretFiles where Settings.secrecyWarning(of: path) != nil {
                findings.append(
                    PreflightFinding(
                        .secrets, "\(path): every user of this machine can read this secret", fix: "chmod o-r \(path)"))
            }
            guard let end = merchant.identity?.notAfterEpochSeconds, MerchantLibrary.isNear(end, now) else { continue }
            findings.append(
                PreflightFinding(
                    .merchants, .warning,
                    "\(merchant.name): its Merchant Identity certificate expires in \((end - now) / 86_400) days",
                    fix: "put a renewed certificate and its key into \(self.directory)/\(merchant.name)"))
        }
        return findings
    }

    /// The shops' services, the payment providers, and Apple's hosts for merchant sessions.
    private var services: [Service] {
        self.merchants.flatMap { merchant in
            var services: [Service] = []
            func add(_ member: String, _ url: String, _ change: (inout FetchRequest) -> Void) {
                var request = FetchRequest(url: url) { _ in true }
                request.timeout = self.limit
                request.connectTimeout = self.limit
                change(&request)
                services.append(Service(merchant: merchant.name, member: member, request: request))
            }
            if let upstream = merchant.upstream {
                add("upstream", upstream.url) {
                    $0.addresses = Upstream.policy(upstream.addresses)
                    $0.rootsPEM = upstream.rootsPEM
                }
            }
            if case .forward(let provider) = merchant.confirmation {
                add("confirm", provider.url.replacing("{id}", with: "x")) {
                    $0.addresses = Upstream.policy(provider.addresses)
                    $0.rootsPEM = provider.rootsPEM
                }
            }
            if let identity = merchant.identity, let host = AppleHost.standard(of: merchant) {
                add("environments", host.sessionURL) {
                    $0.identity = FetchIdentity(
                        certificatePEM: identity.certificatePEM, keyPEM: identity.keyPEM)
                }
            }
            return services
        }
    }

    private func upstreams() async -> [PreflightFinding] {
        let services = self.services.prefix(Self.most)
        guard !services.isEmpty else { return [] }
        let fetcher: Fetcher
        do { fetcher = try Fetcher(self.fetching) } catch {
            return [PreflightFinding(.upstreams, "\(error)", fix: "let this process make threads")]
        }
        let findings = await withTaskGroup(of: PreflightFinding?.self) { group in
            for service in services { group.addTask { await self.finding(service, fetcher) } }
            return await group.reduce(into: [PreflightFinding]()) { if let finding = $1 { $0.append(finding) } }
        }
        await fetcher.close()
        return findings.sorted()
    }

    private func finding(_ service: Service, _ fetcher: Fetcher) async -> PreflightFinding? {
        do throws(FetchError) {
            try await fetcher.connect(service.request)
            return nil
        } catch {
            return PreflightFinding(
                .upstreams, "\(service.merchant): $.\(service.member): \(error.message)",
                fix: Self.fix(error.code, service.member) + " of \(self.directory)/\(service.merchant)/merchant.json")
        }
    }

    private static func fix(_ code: FetchError.Code, _ member: String) -> String {
        switch code {
        case .addressNotAllowed: "list the address in $.\(member).addresses"
        case .tls: "renew the server's certificate, or correct $.\(member).roots"
        default: "start the service, let the firewall pass it, or correct $.\(member)"
        }
    }
}
