import APNS
import ArgumentParser
import Brands
import Model
import NIOCore
import Operations

/// `waybill-pusher check`: see `CheckOptions`.
struct CheckCommand: AsyncParsableCommand {
    static let configuration = CheckOptions.configuration

    @OptionGroup var options: CheckOptions

    func run() async throws { try await self.options.run { await Pusher.preflight($0, isOffline: $1) } }
}

extension Pusher {
    /// Checks configuration and surroundings.
    ///
    /// - Parameter patience: the factor of all time limits.
    static func preflight(
        _ variables: [String: String], isOffline: Bool, patience: Int = 1
    ) async -> PreflightReport {
        await Preflight.run(
            variables, version: Self.version, role: KafkaRole.pusher, isOffline: isOffline, patience: patience,
            read: { settings, common in try PusherSettings(settings, common: common) },
            checks: { settings, environment in
                [
                    settings.brands.preflight(environment.common.brands),
                    APNSCheck(settings, environment, patience: patience).check,
                ]
            })
    }
}

/// The check that APNs can be reached over TLS and HTTP/2 with the certificate of each brand; no notification is sent.
///
/// A certificate that APNs does not accept is found by its first answer only.
/// Bounded: one connection for each of at most `most` brands, each for at most `limit`.
struct APNSCheck: Sendable {
    private static let limit = Duration.seconds(3)
    private static let most = 200

    private let settings: PusherSettings
    private let environment: ServiceEnvironment
    private let limit: Duration

    init(_ settings: PusherSettings, _ environment: ServiceEnvironment, patience: Int = 1) {
        self.settings = settings
        self.environment = environment
        self.limit = Self.limit * patience
    }

    var check: PreflightCheck { PreflightCheck(.apns) { await self.findings() } }

    func findings() async -> [PreflightFinding] {
        let brands = self.settings.brands.brands
        let tokens = ProviderTokenSources()
        let found = await withTaskGroup(of: (OrderTypeIdentifier, APNSError)?.self) { group in
            for type in brands.orderTypes.prefix(Self.most) {
                guard let push = brands[type]?.push else { continue }
                group.addTask { await self.failure(push, tokens).map { (type, $0) } }
            }
            // A host that is away is away for all brands.
            return await group.reduce(into: [String: (error: APNSError, types: [OrderTypeIdentifier])]()) {
                guard let (type, error) = $1 else { return }
                $0[error.message, default: (error, [])].types.append(type)
            }
        }
        return found.values.sorted { $0.error.message < $1.error.message }.map { error, types in
            let names = types.map(\.rawValue).sorted()
            let others = names.count > 3 ? ", and \(names.count - 3) more" : ""
            let subject = "\(self.settings.endpoint) with \(names.prefix(3).joined(separator: ", "))\(others)"
            return PreflightFinding(.apns, "\(subject): \(error.message)", fix: Self.fix(error))
        }
    }

    static func fix(_ error: APNSError) -> String {
        switch error.code {
        case .connecting, .silent, .timeout:
            "correct WAYBILL_APNS_URL or WAYBILL_APNS_PROXY, or let the firewall pass its port (443, 2197)"
        case .credential: "put a renewed certificate and its key into the brand's directory"
        case .tls:
            "correct WAYBILL_APNS_URL, or WAYBILL_APNS_ROOTS; nothing on the way may open TLS, and the brand's "
                + "certificate must be that of Apple"
        case .configuration: "correct certificate and key of the brand"
        default: "correct WAYBILL_APNS_URL: an APNs server speaks HTTP/2 there"
        }
    }

    /// Returns the reason why there is no connection with a credential; nil: there is one.
    private func failure(_ push: PushAuthentication, _ tokens: ProviderTokenSources) async -> APNSError? {
        let (events, continuation) = AsyncStream.makeStream(of: APNSEvent.self)
        var configuration = APNSConfiguration()
        configuration.connections = 1...1
        configuration.closeTimeout = .milliseconds(100)
        configuration.onEvent = { continuation.yield($0) }
        let client: APNSClient
        do {
            client = try APNSClient(
                endpoint: self.settings.endpoint, credential: APNSCredential(push, tokens),
                rootsPEM: self.settings.roots, proxy: self.settings.proxy, eventLoopGroup: self.environment.group,
                configuration: configuration)
        } catch { return error as? APNSError ?? APNSError(.configuration, "\(error)") }
        client.connect()
        let reason = await withTaskGroup(of: APNSError?.self) { group in
            group.addTask { await Self.outcome(of: events) }
            group.addTask { [limit] in
                try? await Task.sleep(for: limit)
                return APNSError(.silent, "no SETTINGS of HTTP/2 within \(limit)")
            }
            defer { group.cancelAll() }
            return await group.next() ?? nil
        }
        await client.close()
        return reason
    }

    /// Waits for the server's SETTINGS, which come after its verdict on the certificate: with TLS 1.3 the handshake
    /// ends on our side before that. Source: RFC 8446 §2, RFC 9113 §3.4
    private static func outcome(of events: AsyncStream<APNSEvent>) async -> APNSError? {
        for await event in events {
            switch event {
            case .streamLimit: return nil
            case .disconnected(let error), .unreachable(let error): return error
            default: continue
            }
        }
        return APNSError(.closed, "the connection was given up")
    }
}
