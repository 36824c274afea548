public import Configuration
import Glibc
import Kafka
import Model
import Redis

/// An error of the configuration: the key, the value and the correction.
public struct SettingsError: Error, CustomStringConvertible, Sendable {
    public let description: String
    /// The key; nil for an error of the file.
    let key: SettingKey?

    public init(_ key: SettingKey, value: String?, _ problem: String) {
        self.key = key
        let shown = value.map(key.shown)
        self.description = shown.map { "\(key.rawValue)=\($0): \(problem)" } ?? "\(key.rawValue): \(problem)"
    }

    init(file: String, _ problem: String) {
        self.key = nil
        self.description = "\(file): \(problem)"
    }
}

/// A reader of the configuration that records the effective values, so that they can be shown.
///
/// Order: environment, then the file, then the default. Source: Design §8
public final class Settings {
    private let reader: ConfigReader
    /// True if the configuration is only checked; errors that a service could tolerate are then reported too.
    public let isCheck: Bool
    /// True for the check before a start, which goes on without a brand.
    public let isPreflight: Bool
    /// Values in place of refused ones; an empty one is the default.
    private let replaced: [SettingKey: String]
    /// Files with secrets that every user of the machine can read.
    private(set) var exposedFiles: [String] = []
    /// Settings that work but should be changed, for the log.
    public private(set) var warnings: [String] = []
    /// The values read so far, in the order of reading, secrets redacted.
    public private(set) var effective: [(key: SettingKey, value: String)] = []

    public init(
        reader: ConfigReader, isCheck: Bool = false, isPreflight: Bool = false, replaced: [SettingKey: String] = [:]
    ) {
        self.reader = reader
        self.isCheck = isCheck
        self.isPreflight = isPreflight
        self.replaced = replaced
    }

    /// Reads from the environment and from the file named by `WAYBILL_CONFIG`.
    ///
    /// - Parameter environment: the process environment.
    /// - Throws: `SettingsError` if the file does not exist, is not a JSON object of scalars, or has an unknown key.
    public convenience init(
        environment: [String: String], isCheck: Bool = false, isPreflight: Bool = false,
        replaced: [SettingKey: String] = [:]
    ) throws(SettingsError) {
        // An empty variable is an absent one and must not hide the value in the file.
        let given = environment.filter { !$0.value.isEmpty }
        var providers: [any ConfigProvider] = [EnvironmentVariablesProvider(environmentVariables: given)]
        if let path = environment[SettingKey.fileVariable], !path.isEmpty {
            providers.append(EnvironmentVariablesProvider(environmentVariables: try Self.file(path)))
        }
        self.init(
            reader: ConfigReader(providers: providers), isCheck: isCheck, isPreflight: isPreflight, replaced: replaced)
    }

    /// Returns the file's members under the names of the environment variables.
    private static func file(_ path: String) throws(SettingsError) -> [String: String] {
        let content: [UInt8]
        do {
            content = try FileContent.read(path, limit: 1 << 20, isPipeAllowed: true)
        } catch {
            throw SettingsError(file: path, "cannot read the file: \(error)")
        }
        let json: JSON
        do {
            json = try JSON(parsing: content)
        } catch {
            throw SettingsError(file: path, "not readable as JSON: \(error)")
        }
        guard let object = json.object else {
            throw SettingsError(file: path, "must be a JSON object, it is \(json.kind)")
        }
        var values: [String: String] = [:]
        for member in object.members {
            guard SettingKey(rawValue: member.name) != nil else {
                throw SettingsError(
                    file: path, "unknown key \"\(member.name)\"; keys are named like the environment variables")
            }
            guard let value = member.value.string ?? member.value.number?.text else {
                throw SettingsError(
                    file: path, "\"\(member.name)\" must be a string or a number, it is \(member.value.kind)")
            }
            values[member.name] = value
        }
        return values
    }

    /// Returns the value of a key; an empty one counts as absent.
    public func text(_ key: SettingKey) -> String? {
        let components = key.rawValue.lowercased().split(separator: "_").map(String.init)
        let value = self.replaced[key] ?? self.reader.string(forKey: ConfigKey(components), isSecret: key.isSecret)
        let given = value.flatMap { $0.isEmpty ? nil : $0 }
        self.remember(key, given)
        return given
    }

    public func text(_ key: SettingKey, default fallback: String) -> String {
        if let value = self.text(key) { return value }
        self.remember(key, fallback)
        return fallback
    }

    /// - Throws: `SettingsError` that describes the missing value.
    public func required(_ key: SettingKey, _ meaning: String) throws(SettingsError) -> String {
        guard let value = self.text(key) else { throw SettingsError(key, value: nil, "is required: \(meaning)") }
        return value
    }

    /// - Throws: `SettingsError` if the value is not a whole number in the range.
    public func integer(_ key: SettingKey, default fallback: Int, in range: ClosedRange<Int>) throws(SettingsError)
        -> Int
    {
        let text = self.text(key, default: String(fallback))
        guard let value = Int(text), range.contains(value) else {
            throw SettingsError(
                key, value: text, "must be a whole number from \(range.lowerBound) to \(range.upperBound)")
        }
        return value
    }

    /// Reads one of an enumeration's raw values.
    public func choice<Choice: RawRepresentable<String> & CaseIterable>(
        _ key: SettingKey, default fallback: Choice
    ) throws(SettingsError) -> Choice {
        let text = self.text(key, default: fallback.rawValue)
        guard let value = Choice(rawValue: text) else {
            let choices = Choice.allCases.map(\.rawValue).joined(separator: ", ")
            throw SettingsError(key, value: text, "must be one of \(choices)")
        }
        return value
    }

    private enum Switch: String, CaseIterable { case on, off }

    /// Reads `on` or `off`; `off` if it is missing.
    public func isOn(_ key: SettingKey) throws(SettingsError) -> Bool {
        try self.choice(key, default: Switch.off) == .on
    }

    /// Reads `host:port`, with brackets around an IPv6 address.
    public func address(_ key: SettingKey, default fallback: String) throws(SettingsError) -> ListenAddress {
        let text = self.text(key, default: fallback)
        guard let address = ListenAddress(text) else {
            throw SettingsError(key, value: text, "must be host:port, for example 127.0.0.1:8080")
        }
        return address
    }

    /// Returns the content of the file named by a key.
    ///
    /// - Throws: `SettingsError` if it cannot be read or is larger than `limit` bytes.
    public func content(_ key: SettingKey, of path: String, limit: Int = 1 << 20) throws(SettingsError) -> [UInt8] {
        let content: [UInt8]
        do {
            content = try FileContent.read(path, limit: limit, isPipeAllowed: true)
        } catch {
            throw SettingsError(key, value: path, "cannot read the file: \(error)")
        }
        return content
    }

    /// Notes a setting that works but should be changed.
    public func warn(_ text: String) { self.warnings.append(text) }

    /// Warns if every user of the machine can read a file with a secret.
    public func checkSecrecy(of path: String) {
        guard let warning = Self.secrecyWarning(of: path) else { return }
        self.exposedFiles.append(path)
        self.warn(warning)
    }

    /// Returns the warning about a file with a secret that every user of the machine can read; nil if it is fine.
    ///
    /// A group may read it: Kubernetes gives secrets in this way to a pod that does not run as root.
    public static func secrecyWarning(of path: String) -> String? {
        var status = stat()
        guard unsafe stat(path, &status) == 0, status.st_mode & S_IROTH != 0 else { return nil }
        return "\(path): every user of this machine can read this secret: run chmod o-r"
    }

    private func remember(_ key: SettingKey, _ value: String?) {
        self.effective.removeAll { $0.key == key }
        let shown = value.map(key.shown) ?? "(none)"
        self.effective.append((key, shown))
    }
}

/// Settings that more than one service reads, each with the check that prevents a start.
extension Settings {
    /// Reads the address and the properties of Kafka.
    func kafka() throws(SettingsError) -> KafkaConfiguration {
        let bootstrap = self.text(.kafkaBootstrap, default: "127.0.0.1:9092")
        guard let file = self.text(.kafkaProperties) else { return KafkaConfiguration(bootstrap: bootstrap) }
        do {
            let configuration = KafkaConfiguration(
                bootstrap: bootstrap, properties: try KafkaConfiguration.properties(file: file), file: file)
            try configuration.check()
            return configuration
        } catch {
            throw SettingsError(.kafkaProperties, value: file, error.message)
        }
    }

    /// Reads the address and the credentials of Redis.
    func redis() throws(SettingsError) -> RedisConfiguration {
        let url = self.text(.redisURL, default: "redis://127.0.0.1:6379/0")
        var password: String?
        if let path = self.text(.redisPasswordFile) {
            let content = try self.content(.redisPasswordFile, of: path, limit: 4096)
            self.checkSecrecy(of: path)
            let line = content.prefix { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") }
            guard !line.isEmpty else {
                throw SettingsError(.redisPasswordFile, value: path, "the first line must be the password, it is empty")
            }
            password = String(decoding: line, as: UTF8.self)
        }
        let roots = self.text(.redisRoots)
        if let roots {
            _ = try self.content(.redisRoots, of: roots)
            // A URL that is neither is refused itself.
            guard !url.hasPrefix("redis:"), !url.hasPrefix("redis+") else {
                throw SettingsError(.redisRoots, value: roots, "is for rediss:// and rediss+sentinel:// only")
            }
        }
        do {
            return try RedisConfiguration(url: url, password: password, caFile: roots)
        } catch {
            if let roots, error.message.contains(roots) {
                throw SettingsError(.redisRoots, value: roots, error.message)
            }
            throw SettingsError(.redisURL, value: url, error.message)
        }
    }

    /// Reads the address of `/livez`, `/readyz` and `/metrics`.
    func operationsListen() throws(SettingsError) -> ListenAddress {
        try self.address(.operationsListen, default: "127.0.0.1:9470")
    }

    /// Reads the base URL that is written into each order.
    public func webServiceURL() throws(SettingsError) -> String {
        let url = try self.required(.webServiceURL, "https://… as Wallet will call the gateway")
        guard url.hasPrefix("https://"), url.utf8.count > 8, !url.contains(where: \.isWhitespace) else {
            throw SettingsError(.webServiceURL, value: url, "must start with https://")
        }
        return url
    }
}
