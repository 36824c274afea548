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

    func run() async throws { try await self.options.run(Pusher.preflight) }
}

extension Pusher {
    /// Checks configuration and surroundings.
    static func preflight(_ variables: [String: String], isOffline: Bool) async -> PreflightReport {
        await Preflight.run(
            variables, version: Self.version, role: KafkaRole.pusher, isOffline: isOffline,
            read: { settings, common in try PusherSettings(settings, common: common) },
            checks: { settings, environment in
                [settings.brands.preflight(environment.common.brands), APNSCheck(settings, environment).check]
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

    init(_ settings: PusherSettings, _ environment: ServiceEnvironment) {
        self.settings = settings
        self.environment = environment
    }

    var check: PreflightCheck { PreflightCheck(.apns) { await self.findings() } }

    func findings() async -> [PreflightFinding] {
        let brands = self.settings.brands.brands
        let tokens = ProviderTokenSources()
        let found = await withTaskGroup(of: (OrderTypeIdentifier, String)?.self) { group in
            for type in brands.orderTypes.prefix(Self.most) {
                guard let push = brands[type]?.push else { continue }
                group.addTask { await self.failure(push, tokens).map { (type, $0) } }
            }
            return await group.reduce(into: [String: [OrderTypeIdentifier]]()) { found, failure in
                if let (type, reason) = failure { found[reason, default: []].append(type) }
            }
        }
        // A host that is away is away for all brands.
        return found.sorted { $0.key < $1.key }.map { reason, types in
            let names = types.map(\.rawValue).sorted()
            let others = names.count > 3 ? ", and \(names.count - 3) more" : ""
            return PreflightFinding(
                .apns, "\(self.settings.endpoint) with \(names.prefix(3).joined(separator: ", "))\(others): \(reason)",
                fix:
                    "correct WAYBILL_APNS_URL, WAYBILL_APNS_ROOTS or WAYBILL_APNS_PROXY, the firewall (443, 2197), "
                    + "or the certificate and key of the brand")
        }
    }

    /// Returns the reason why there is no connection with a credential; nil: there is one.
    private func failure(_ push: PushAuthentication, _ tokens: ProviderTokenSources) async -> String? {
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
        } catch { return "\(error)" }
        client.connect()
        let reason = await withTaskGroup(of: String?.self) { group in
            group.addTask { await Self.outcome(of: events) }
            group.addTask {
                try? await Task.sleep(for: Self.limit)
                return "no connection within \(Self.limit)"
            }
            defer { group.cancelAll() }
            return await group.next() ?? nil
        }
        await client.close()
        return reason
    }

    private static func outcome(of events: AsyncStream<APNSEvent>) async -> String? {
        for await event in events {
            switch event {
            case .connected: return nil
            case .disconnected(let error), .unreachable(let error): return error.message
            default: continue
            }
        }
        return "the connection was given up"
    }
}
