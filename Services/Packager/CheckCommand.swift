import ArgumentParser
import Brands
import Model
import NIOCore
import NIOPosix
import Operations
import Packaging
import Sandbox

/// `waybill-packager check`: see `CheckOptions`. With `--ingest` that of the role `ingest`.
struct CheckCommand: AsyncParsableCommand {
    static let configuration = CheckOptions.configuration

    @Flag(help: "Check the configuration of the role ingest.") var ingest = false

    @OptionGroup var options: CheckOptions

    func run() async throws {
        try await self.options.run { variables, isOffline in
            self.ingest
                ? await Ingest.preflight(variables, isOffline: isOffline)
                : await Packager.preflight(variables, isOffline: isOffline)
        }
    }
}

extension Packager {
    /// Checks configuration and surroundings.
    ///
    /// - Parameters:
    ///   - patience: the factor of all time limits.
    ///   - program: that of the mapper processes, by default this one.
    static func preflight(
        _ variables: [String: String], isOffline: Bool, patience: Int = 1, program: String? = nil
    ) async -> PreflightReport {
        await Preflight.run(
            variables, version: Self.version, role: KafkaRole.packager, isOffline: isOffline, patience: patience,
            read: { settings, common in
                (
                    own: try PackagerSettings(settings, common: common),
                    sources: try settings.text(.sources).map {
                        SourceCheck($0, common.topics, .mapper(try settings.sandboxWall(), path: program))
                    }
                )
            },
            checks: { settings, environment in
                let brands = settings.own.brands
                return [brands.preflight(environment.common.brands), PictureHostCheck(brands.brands).check]
                    + (settings.sources?.checks ?? [])
            })
    }
}

extension Ingest {
    /// Checks configuration and surroundings of the role.
    ///
    /// - Parameters:
    ///   - patience: the factor of all time limits.
    ///   - program: that of the mapper processes, by default this one.
    static func preflight(
        _ variables: [String: String], isOffline: Bool, patience: Int = 1, program: String? = nil
    ) async -> PreflightReport {
        await Preflight.run(
            variables, version: Packager.version, role: { .ingest($0, sources: []) }, isOffline: isOffline,
            patience: patience,
            read: { settings, common in
                SourceCheck(
                    try settings.required(.sources, "directory with one sub-directory per source"), common.topics,
                    .mapper(try settings.sandboxWall(), path: program))
            },
            topics: { $0.needs }, checks: { sources, _ in sources.checks })
    }
}

/// The check of the sources of the role `ingest`.
struct SourceCheck: Sendable {
    private let directory: String
    private let topics: Topics
    private let sandbox: Sandbox
    private let sources: [Source]
    private let findings: [PreflightFinding]

    init(_ directory: String, _ topics: Topics, _ sandbox: Sandbox) {
        self.directory = directory
        self.topics = topics
        self.sandbox = sandbox
        (self.sources, self.findings) = Self.files(directory, topics, sandbox)
    }

    /// The topics of the role.
    var needs: [KafkaTopicNeed] { Ingest.needs(self.topics, self.sources.flatMap(\.topics)) }

    var checks: [PreflightCheck] {
        [
            PreflightCheck(.sources, usesNetwork: false) { self.findings },
            PreflightCheck(.sources) { await self.registries() },
        ]
    }

    /// The sources that can be loaded, and the faults of all.
    private static func files(
        _ directory: String, _ topics: Topics, _ sandbox: Sandbox
    ) -> (sources: [Source], findings: [PreflightFinding]) {
        var (sources, findings): ([Source], [PreflightFinding]) = ([], [])
        func add(_ text: String, _ fix: String) { findings.append(PreflightFinding(.sources, text, fix: fix)) }
        let names = (try? SourceLibrary.names(in: directory)) ?? []
        if names.isEmpty {
            add(
                "\(directory): no folder has a source.json, or the directory cannot be read",
                "create a folder with a source.json in it, or correct WAYBILL_SOURCES")
        }
        for name in names {
            let folder = "\(directory)/\(name)"
            let (source, faults) = Source.loadAll(folder: folder, name: name, in: sandbox)
            for fault in faults { add("\(fault)", "correct the file in \(folder)") }
            guard let source else { continue }
            for fault in SourceTable.conflicts(of: source, with: sources, topics) {
                add("\(fault)", "correct $.topics in \(folder)/source.json")
            }
            for finding in ProgramLint(String(decoding: source.program.text, as: UTF8.self)).globals {
                add("\(name): \(finding)", "correct its spelling in \(folder)/map.lua")
            }
            sources.append(source)
        }
        return (sources, findings)
    }

    /// Registries that cannot be asked. They have no schema 0, which they say.
    private func registries() async -> [PreflightFinding] {
        var findings: [PreflightFinding] = []
        let mapper = Mapper(self.sandbox, count: 1)
        for source in self.sources {
            guard case .away(let reason)? = await source.registry?.schema(0, mapper, of: source.name) else { continue }
            findings.append(
                PreflightFinding(
                    .sources, "\(source.name): \(reason)",
                    fix: "correct registry in \(self.directory)/\(source.name)/source.json, or start the registry"))
        }
        await mapper.close()
        return findings
    }
}

/// The check that the hosts of pictures and documents can be reached; without a request to them.
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
            let brand = brands[type]
            let named = [brand?.pictureHosts, brand?.documents.hosts].flatMap { $0?.named ?? [] }
            for host in named where !hosts.contains(where: { $0 == host }) { hosts.append(host) }
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

    /// A picture or document that cannot be fetched holds up no order, so it is a risk only.
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
                fix: "correct pictures.hosts or documents.hosts of the brand, or the firewall: pictures and documents "
                    + "are left out of packages meanwhile"
            )
        }
    }
}
