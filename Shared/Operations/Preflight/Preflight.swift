import FoundationEssentials
import Logging
public import Model
import NIOPosix

/// A part of the check before a start, beside those that all services have.
public struct PreflightCheck: Sendable {
    let area: PreflightArea
    /// False for one that reads files only.
    let usesNetwork: Bool
    let find: @Sendable () async -> [PreflightFinding]

    public init(
        _ area: PreflightArea, usesNetwork: Bool = true, _ find: @escaping @Sendable () async -> [PreflightFinding]
    ) {
        self.area = area
        self.usesNetwork = usesNetwork
        self.find = find
    }
}

/// The check of a service's configuration and surroundings before it is started: all faults, each with what to do.
///
/// It changes nothing. Bounded: the parts that ask others run at the same time, each for at most `limit`.
public enum Preflight {
    /// The longest time for one part.
    static let limit = Duration.seconds(4)

    /// Checks a service.
    ///
    /// - Parameters:
    ///   - variables: the process environment.
    ///   - version: the program with its libraries.
    ///   - role: its topics and rights.
    ///   - isOffline: true to ask nobody.
    ///   - patience: the factor of all time limits: more than 1 on a machine that is busy with other things.
    ///   - read: reads the service's own settings.
    ///   - topics: topics that the service needs besides those of its role.
    ///   - checks: the service's own parts.
    public static func run<Own>(
        _ variables: [String: String], version: ProgramVersion, role: (Topics) -> KafkaRole, isOffline: Bool,
        patience: Int = 1, read: (Settings, CommonSettings) throws -> Own,
        topics: (Own) -> [KafkaTopicNeed] = { _ in [] }, checks: (Own, ServiceEnvironment) -> [PreflightCheck]
    ) async -> PreflightReport {
        var report = PreflightReport()
        report.checked = [.configuration, .secrets, .libraries]
        let directory = FileManager.default.temporaryDirectory.appending(
            path: "waybill-check-\(UInt64.random(in: 0...(.max)))")
        defer { try? FileManager.default.removeItem(at: directory) }
        var reader = SettingsReader(variables, standInFolder: directory.path)
        let found = reader.read(read)
        report.findings +=
            reader.findings
            + UnknownVariable.all(in: variables).map {
                PreflightFinding(.configuration, .warning, "\($0)", fix: "correct or remove \($0.name)")
            }
        report.findings += LibraryMinimum.findings(version)
        guard let (common, own) = found else {
            report.unchecked = [
                (.kafka, "the configuration cannot be read"), (.redis, "the configuration cannot be read"),
            ]
            return report
        }
        let environment = ServiceEnvironment(
            common: common, group: .singleton, metrics: MetricsRegistry(), readiness: Readiness(conditions: []),
            logger: Logger(label: "check") { _ in SwiftLogNoOpLogHandler() })
        let kafka = KafkaPreflight(environment, role(common.topics), others: topics(own), patience: patience)
        let all =
            [
                PreflightCheck(.kafka) { await kafka.findings() },
                PreflightCheck(.redis) { await RedisPreflight(environment, patience: patience).findings() },
            ] + checks(own, environment)
        await report.add(all.filter { !isOffline || !$0.usesNetwork }, within: Self.limit * patience)
        for check in all where isOffline && check.usesNetwork { report.unchecked.append((check.area, "--offline")) }
        if !isOffline { report.unchecked.append((.kafka, kafka.unjudged)) }
        return report
    }
}

extension PreflightReport {
    /// Runs parts at the same time, and adds what they find, in their order.
    fileprivate mutating func add(_ checks: [PreflightCheck], within limit: Duration) async {
        let found = await withTaskGroup(of: (Int, [PreflightFinding]).self) { group in
            for (index, check) in checks.enumerated() {
                group.addTask { (index, await Self.found(by: check, within: limit)) }
            }
            return await group.reduce(into: [:]) { $0[$1.0] = $1.1 }
        }
        for (index, check) in checks.enumerated() {
            if !self.checked.contains(check.area) { self.checked.append(check.area) }
            for finding in found[index] ?? [] {
                if !self.checked.contains(finding.area) { self.checked.append(finding.area) }
                self.findings.append(finding)
            }
        }
    }

    /// Returns what a part finds, or that it does not come to an end.
    private static func found(by check: PreflightCheck, within limit: Duration) async -> [PreflightFinding] {
        await withTaskGroup(of: [PreflightFinding]?.self) { group in
            group.addTask { await check.find() }
            group.addTask {
                try? await Task.sleep(for: limit)
                return nil
            }
            defer { group.cancelAll() }
            return await group.next().flatMap { $0 } ?? [
                PreflightFinding(
                    check.area, "no result within \(limit)",
                    fix:
                        "look for a firewall that drops packets, and for a server that accepts connections only"
                )
            ]
        }
    }
}

/// Reads a configuration with all of its faults: a value that is refused is replaced, and reading begins again.
struct SettingsReader {
    private let variables: [String: String]
    /// A folder for files that stand in for those that cannot be read.
    private let folder: String
    private var replaced: [SettingKey: String] = [:]
    private(set) var findings: [PreflightFinding] = []

    init(_ variables: [String: String], standInFolder folder: String) {
        self.variables = variables
        self.folder = folder
    }

    /// Returns the settings with all values that are not refused; nil if they cannot be read at all.
    mutating func read<Own>(_ read: (Settings, CommonSettings) throws -> Own) -> (common: CommonSettings, own: Own)? {
        for _ in 0...SettingKey.allCases.count {
            do {
                let settings = try Settings(environment: self.variables, isPreflight: true, replaced: self.replaced)
                let common = try CommonSettings(settings)
                let own = try read(settings, common)
                self.findings += settings.exposedFiles.map {
                    PreflightFinding(
                        .secrets, "\($0): every user of this machine can read this secret", fix: "chmod o-r \($0)")
                }
                self.findings += settings.warnings.filter { warning in
                    !settings.exposedFiles.contains { warning.hasPrefix($0) }
                }.map {
                    PreflightFinding(.configuration, .warning, $0, fix: "correct it, or leave it if it is intended")
                }
                return (common, own)
            } catch let error as SettingsError {
                self.note(error)
                guard let key = error.key, self.replaced[key] == nil, let standIn = self.standIn(for: key) else {
                    return nil
                }
                self.replaced[key] = standIn
                for other in Self.dependents[key] ?? [] { self.replaced[other] = "" }
            } catch {
                self.findings.append(
                    PreflightFinding(.configuration, "\(error)", fix: "see the documents of the service"))
                return nil
            }
        }
        return nil
    }

    /// The keys that would be refused beside a default in place of another one.
    private static let dependents: [SettingKey: [SettingKey]] = [
        .tlsCertificate: [.tlsKey], .tlsKey: [.tlsCertificate], .redisURL: [.redisRoots],
    ]

    private mutating func note(_ error: SettingsError) {
        let place = self.variables[SettingKey.fileVariable].map { " or \($0)" } ?? ""
        let fix = error.key.map { "correct \($0.rawValue) in the environment\(place)" } ?? "correct the file"
        self.findings.append(PreflightFinding(error.key == .brands ? .brands : .configuration, "\(error)", fix: fix))
    }

    /// Returns a value with which reading goes on; an empty one is the default. Nil if there is none.
    private func standIn(for key: SettingKey) -> String? {
        switch key {
        case .webServiceURL: return "https://check.invalid"
        case .tokenSecrets:
            let path = "\(self.folder)/token-secrets"
            let secret = (0..<4).map { _ in String(UInt64.random(in: (.max / 2)...(.max)), radix: 16) }.joined()
            do {
                try FileManager.default.createDirectory(atPath: self.folder, withIntermediateDirectories: true)
            } catch { return nil }
            let isMade = FileManager.default.createFile(
                atPath: path, contents: Data(secret.utf8), attributes: [.posixPermissions: 0o600])
            return isMade ? path : nil
        default: return ""
        }
    }
}

/// The oldest versions of C libraries that are safe.
struct LibraryMinimum {
    let name: String
    let version: [Int]
    /// The fault of an older one.
    let reason: String

    static let all = [
        // Source: librdkafka CHANGELOG 2.0.2
        LibraryMinimum(
            name: "librdkafka", version: [2, 0, 2], reason: "older ones lose track of a consumer's position"),
        // Debian's 0.14.1 has the correction of CVE-2021-32765.
        LibraryMinimum(name: "hiredis", version: [0, 14, 1], reason: "an answer may overflow a buffer"),
        LibraryMinimum(name: "OpenSSL", version: [3, 0, 0], reason: "1.1.1 gets no corrections since 2023"),
        // Source: curl.se/docs/security.html
        LibraryMinimum(name: "libcurl", version: [7, 84, 0], reason: "CVE-2022-32208 and others"),
        // Source: nghttp2 1.41.0
        LibraryMinimum(name: "nghttp2", version: [1, 41, 0], reason: "CVE-2020-11080: large SETTINGS frames"),
    ]

    static func findings(_ version: ProgramVersion) -> [PreflightFinding] {
        Self.all.compactMap { least in
            let found = version[least.name]
            let numbers = found.split { !$0.isNumber }.prefix(3).compactMap { Int($0) }
            guard !numbers.isEmpty, numbers.lexicographicallyPrecedes(least.version) else { return nil }
            let needed = least.version.map(String.init).joined(separator: ".")
            return PreflightFinding(
                .libraries, .warning, "\(least.name) \(found) is older than \(needed): \(least.reason)",
                fix: "install \(needed) or later, unless your distribution has corrected its own version")
        }
    }
}
