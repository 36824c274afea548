import ArgumentParser
import Brands
import NIOCore
import NIOPosix
import Operations
import Packaging

/// `waybill-packager check`: see `CheckOptions`.
struct CheckCommand: AsyncParsableCommand {
    static let configuration = CheckOptions.configuration

    @OptionGroup var options: CheckOptions

    func run() async throws { try await self.options.run(Packager.preflight) }
}

extension Packager {
    /// Checks configuration and surroundings.
    static func preflight(_ variables: [String: String], isOffline: Bool) async -> PreflightReport {
        await Preflight.run(
            variables, version: Self.version, role: KafkaRole.packager, isOffline: isOffline,
            read: { settings, common in try PackagerSettings(settings, common: common) },
            checks: { settings, environment in
                [settings.brands.preflight(environment.common.brands), PictureHostCheck(settings.brands.brands).check]
            })
    }
}

/// The check that the hosts of pictures can be reached; without a request to them.
///
/// Bounded: each host is tried once, for at most `limit`, all at the same time.
struct PictureHostCheck: Sendable {
    private static let limit = TimeAmount.seconds(3)
    /// The most hosts that are tried.
    private static let most = 200

    private let hosts: [(name: String, port: Int)]

    init(_ brands: Brands) {
        var hosts: [(name: String, port: Int)] = []
        for type in brands.orderTypes {
            for host in brands[type]?.pictureHosts.named ?? [] where !hosts.contains(where: { $0 == host }) {
                hosts.append(host)
            }
        }
        self.hosts = Array(hosts.prefix(Self.most))
    }

    var check: PreflightCheck {
        PreflightCheck(.pictures) { [hosts] in
            await withTaskGroup(of: PreflightFinding?.self) { group in
                for host in hosts { group.addTask { await Self.finding(host.name, host.port) } }
                return await group.reduce(into: []) { findings, finding in if let finding { findings.append(finding) } }
                    .sorted { $0 < $1 }
            }
        }
    }

    /// A picture that cannot be fetched holds up no order, so it is a risk only.
    private static func finding(_ host: String, _ port: Int) async -> PreflightFinding? {
        do {
            let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton).connectTimeout(
                Self.limit
            ).connect(host: host, port: port).get()
            channel.close(promise: nil)
            return nil
        } catch {
            let reason = (error as? NIOConnectionError)?.connectionErrors.first.map { "\($0.error)" } ?? "\(error)"
            return PreflightFinding(
                .pictures, .warning, "\(host):\(port) cannot be reached: \(reason)",
                fix: "correct pictures.hosts of the brand, or the firewall: pictures are left out of packages meanwhile"
            )
        }
    }
}
