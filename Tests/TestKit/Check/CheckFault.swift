public import Model

/// A fault of an environment, and what a program's `check` must say of it.
public struct CheckFault {
    let area: String
    /// A part of its text.
    let text: String
    /// A part of its fix.
    let fix: String
    let isWarning: Bool
    private let change: (CheckedEnvironment) async throws -> Void

    public init(
        _ area: String, _ text: String, _ fix: String, isWarning: Bool = false,
        _ change: @escaping (CheckedEnvironment) async throws -> Void
    ) {
        self.area = area
        self.text = text
        self.fix = fix
        self.isWarning = isWarning
        self.change = change
    }

    /// A fault that is the value of a variable, without its prefix; nil for none.
    public init(
        _ area: String, _ text: String, _ fix: String, isWarning: Bool = false, set key: String, _ value: String?
    ) {
        self.init(area, text, fix, isWarning: isWarning) { $0.variables["WAYBILL_\(key)"] = value }
    }

    /// Breaks an environment.
    public func cause(in environment: CheckedEnvironment) async throws { try await self.change(environment) }

    /// Returns the difference between a report and the one that names this fault alone; nil if there is none.
    ///
    /// - Parameter report: the document of `--json`.
    public func difference(from report: JSON, exitCode: Int32) -> String? {
        func member(_ finding: JSON, _ name: String) -> String { finding.object?[name]?.string ?? "" }
        let faults = report.object?["faults"]?.array ?? []
        let found = self.isWarning ? report.object?["warnings"]?.array ?? [] : faults
        let isNamed = found.contains {
            member($0, "area") == self.area && member($0, "text").contains(self.text)
                && member($0, "fix").contains(self.fix)
        }
        let isConfiguration = ["configuration", "brands", "merchants", "sources"].contains(self.area)
        let code: Int32 = self.isWarning ? 0 : isConfiguration ? 78 : 1
        let isAlone = faults.count == (self.isWarning ? 0 : 1)
        guard !isNamed || !isAlone || exitCode != code else { return nil }
        let problem = !isNamed ? "is not named" : !isAlone ? "is not alone" : "ends with \(exitCode)"
        return "\(self.area): \(self.text) (\(self.fix)) \(problem) in \(report.text)"
    }
}

extension CheckFault {
    /// Faults of files that each program reads. Nothing is asked for them.
    public static var files: [CheckFault] {
        [
            CheckFault("brands", "there is no brand", "WAYBILL_BRANDS", set: "BRANDS", "/nowhere/brands"),
            CheckFault("brands", "brand.json", "correct the file in") { try $0.write("brands/shop/brand.json", "{") },
            CheckFault("brands", "certificate", "correct the file in") {
                try $0.write("brands/shop/certificate.pem", "nonsense")
            },
            CheckFault("secrets", "every user of this machine can read", "chmod o-r") {
                try CheckedEnvironment.permit($0.directory.path("brands/shop/key.pem"), 0o644)
            },
            CheckFault(
                "configuration", "must be a whole number", "SHUTDOWN_SECONDS", set: "SHUTDOWN_SECONDS", "soon"),
            CheckFault("configuration", "must be one of", "LOG_LEVEL", set: "LOG_LEVEL", "loud"),
            CheckFault("configuration", "must be host:port", "OPERATIONS_LISTEN", set: "OPERATIONS_LISTEN", "9090"),
            CheckFault("configuration", "letters, digits", "GROUP_INSTANCE", set: "GROUP_INSTANCE", "a b"),
            CheckFault(
                "configuration", "has what Waybill makes", "ORDER_CHANGE_TOPICS", set: "ORDER_CHANGE_TOPICS",
                "x,^waybill"),
            CheckFault("configuration", "no.such.property", "KAFKA_PROPERTIES") {
                $0.variables["WAYBILL_KAFKA_PROPERTIES"] = try $0.write("kafka.properties", "no.such.property=1\n")
            },
            CheckFault("configuration", "Redis URL", "REDIS_URL") {
                $0.variables["WAYBILL_REDIS_URL"] = "http://localhost"
                $0.variables["WAYBILL_REDIS_ROOTS"] = $0.directory.path("certificates/root.pem")
            },
            CheckFault("configuration", "unknown key", "correct the file") {
                $0.variables["WAYBILL_CONFIG"] = try $0.write("waybill.json", "{\"WAYBILL_BRAND\": \"x\"}")
            },
            CheckFault(
                "configuration", "did you mean WAYBILL_BRANDS", "remove", isWarning: true, set: "BRAND", "x"),
        ]
    }

    /// Faults of the token secrets and the URL of the web service, which not every program reads.
    public static var tokens: [CheckFault] {
        [
            CheckFault(
                "configuration", "WEB_SERVICE_URL: is required", "WEB_SERVICE_URL", set: "WEB_SERVICE_URL", nil),
            CheckFault(
                "configuration", "must start with https", "WEB_SERVICE_URL", set: "WEB_SERVICE_URL", "http://a"),
            CheckFault("configuration", "TOKEN_SECRETS: is required", "TOKEN_SECRETS", set: "TOKEN_SECRETS", nil),
            CheckFault(
                "configuration", "cannot read the file", "TOKEN_SECRETS", set: "TOKEN_SECRETS", "/nowhere/secrets"),
            CheckFault("configuration", "at least 16 bytes", "TOKEN_SECRETS") {
                $0.variables["WAYBILL_TOKEN_SECRETS"] = try $0.write("short", "short\n")
            },
            CheckFault("secrets", "every user of this machine can read", "chmod o-r") {
                try CheckedEnvironment.permit($0.variables["WAYBILL_TOKEN_SECRETS"] ?? "", 0o644)
            },
            CheckFault("configuration", "can be guessed", "correct it", isWarning: true) {
                $0.variables["WAYBILL_TOKEN_SECRETS"] = try $0.write("weak", "passwordpassword\n")
            },
        ]
    }

    /// Faults of Redis. Each is judged with a server of its own.
    ///
    /// - Parameter server: that of the environment; it is configured anew for each fault.
    public static func redis(_ server: RedisServer) -> [CheckFault] {
        func configured(_ words: String...) -> (CheckedEnvironment) async throws -> Void {
            { _ in try await server.command(["CONFIG", "SET"] + words) }
        }
        func disguised(major: Int? = nil, seconds: Int = 0) -> (CheckedEnvironment) async throws -> Void {
            { environment in
                let proxy = try await RedisDisguise.start(before: server, major: major, clockSeconds: seconds)
                environment.servers.append(proxy)
                environment.variables["WAYBILL_REDIS_URL"] = proxy.url
            }
        }
        func user(_ name: String, _ password: String) -> String {
            server.url.replacing("redis://", with: "redis://\(name):\(password)@")
        }
        return [
            CheckFault("redis", "127.0.0.1:1", "start Redis", set: "REDIS_URL", "redis://127.0.0.1:1"),
            CheckFault("redis", "WRONGPASS", "the password", set: "REDIS_URL", user("no", "pass")),
            CheckFault("redis", "allkeys-lru", "noeviction", configured("maxmemory-policy", "allkeys-lru")),
            CheckFault(
                "redis", "volatile-lru", "noeviction", isWarning: true, configured("maxmemory-policy", "volatile-lru")),
            CheckFault("redis", "of maxmemory 1 at", "raise maxmemory", configured("maxmemory", "1")),
            CheckFault(
                "redis", "maxmemory is not set", "set maxmemory", isWarning: true, configured("maxmemory", "0")),
            CheckFault("redis", "keeps no append-only file", "appendonly yes", isWarning: true) { _ in },
            CheckFault("redis", "has no replica", "add a replica", isWarning: true) { _ in },
            CheckFault("redis", "version 7.0 or later", "install Redis", disguised(major: 6)),
            CheckFault("redis", "scripts are refused", "+eval") {
                try await server.command("ACL", "SETUSER", "weak", "on", ">pass", "~*", "+@all", "-eval")
                $0.variables["WAYBILL_REDIS_URL"] = user("weak", "pass")
            },
            CheckFault("clocks", "s ahead of this machine's", "NTP", disguised(seconds: 600)),
            CheckFault("clocks", "s behind this machine's", "NTP", disguised(seconds: -600)),
        ]
    }

    /// The settings that `redis` may have changed, as a good environment has them.
    public static func reset(_ server: RedisServer) async throws {
        try await server.command("CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "noeviction")
    }

    /// Faults of a topic that a program needs.
    ///
    /// - Parameter isWritten: false to leave out what matters to writers of large records only.
    public static func topic(_ name: String, isCompacted: Bool, isLarge: Bool = true) -> [CheckFault] {
        func topic(_ change: @escaping (inout ScriptedKafka.Topic) -> Void) -> (CheckedEnvironment) -> Void {
            { environment in
                guard var topic = environment.topics[name] else { return }
                change(&topic)
                environment.topics[name] = topic
            }
        }
        let (good, bad) = isCompacted ? ("compact", "delete") : ("delete", "compact")
        let faults = [
            CheckFault("kafka", "\(name) does not exist", "create it") { $0.topics[name] = nil },
            CheckFault("kafka", "\(name) is refused", "on topic \(name)", topic { $0.error = 29 }),
            CheckFault(
                "kafka", "\(name): cleanup.policy=\(bad)", "cleanup.policy=\(good)",
                topic { $0.settings?["cleanup.policy"] = bad }),
            CheckFault(
                "kafka", "\(name): unclean.leader.election.enable=true", "unclean.leader.election.enable=false",
                topic { $0.settings?["unclean.leader.election.enable"] = "true" }),
            CheckFault(
                "kafka", "\(name): min.insync.replicas=2, but 1 of 1", "add replicas",
                topic { $0.partitions = [(1, 1)] }
            ),
            CheckFault(
                "kafka", "\(name): 1 of 1 partitions have fewer replicas in sync", "bring the brokers back",
                topic { $0.partitions = [(3, 1)] }),
            CheckFault(
                "kafka", "\(name): min.insync.replicas=1", "min.insync.replicas=2", isWarning: true,
                topic { $0.settings?["min.insync.replicas"] = "1" }),
            CheckFault(
                "kafka", "settings of \(name) are not checked", "DescribeConfigs", isWarning: true,
                topic { $0.settings = nil }),
        ]
        let size = CheckFault(
            "kafka", "\(name): max.message.bytes=1048588", "max.message.bytes=4194304", isWarning: true,
            topic { $0.settings?["max.message.bytes"] = "1048588" })
        return faults + (isLarge ? [size] : [])
    }

    /// No broker at all.
    public static var noBroker: CheckFault {
        CheckFault("kafka", "no broker answers at 127.0.0.1:1", "start Kafka", set: "KAFKA_BOOTSTRAP", "127.0.0.1:1")
    }
}

extension CheckFault {
    /// Faults of the settings that both roles of the gateway have.
    public static var edge: [CheckFault] {
        func certificate(_ certificate: String, _ key: String) -> (CheckedEnvironment) -> Void {
            { environment in
                func path(_ name: String) -> String { environment.directory.path("certificates/\(name)") }
                environment.variables["WAYBILL_TLS_CERTIFICATE"] = path(certificate)
                environment.variables["WAYBILL_TLS_KEY"] = path(key)
                try? CheckedEnvironment.permit(path(key), 0o600)
            }
        }
        return [
            CheckFault(
                "configuration", "must be addresses or networks", "TRUSTED_PROXIES", set: "TRUSTED_PROXIES", "all"),
            CheckFault(
                "configuration", "must be a whole number", "CONNECTION_LIMIT", set: "CONNECTION_LIMIT", "many"),
            CheckFault("configuration", "must be set together", "TLS_KEY", set: "TLS_KEY", "/nowhere/key.pem"),
            CheckFault(
                "configuration", "it cannot be read", "TLS_CERTIFICATE",
                certificate("none.pem", "server-key.pem")),
            CheckFault(
                "configuration", "it does not belong to the certificate", "TLS_KEY",
                certificate("server-certificate.pem", "key.pem")),
        ]
    }
}
