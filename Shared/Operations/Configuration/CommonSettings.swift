import Glibc
public import Kafka
public import Logging
public import Model
public import Redis

/// The settings that every service reads.
public struct CommonSettings: Sendable {
    /// The format of log lines.
    public enum LogFormat: String, CaseIterable, Sendable { case json, text }

    public let kafka: KafkaConfiguration
    /// The static member's name, which differs for each worker of a service; nil for ordinary members.
    let groupInstance: String?
    public let topics: Topics
    public let redis: RedisConfiguration
    /// Directory with one sub-directory per brand.
    public let brands: String
    /// The interval at which that directory is checked.
    public let brandsReload: Duration
    let operationsListen: ListenAddress
    public let logLevel: Logger.Level
    let logFormat: LogFormat
    public let shutdownLimit: Duration
    /// The URL of a collector of traces; nil: no span is made.
    let tracesURL: String?

    /// - Throws: `SettingsError` naming key and value.
    public init(_ settings: Settings) throws(SettingsError) {
        self.kafka = try settings.kafka()
        let prefix = settings.text(.topicPrefix, default: Topics.defaultPrefix)
        guard prefix.utf8.count <= 200, prefix.utf8.allSatisfy(Topics.isNameCharacter) else {
            throw SettingsError(.topicPrefix, value: prefix, "may have letters, digits, '.', '_' and '-' only")
        }
        self.topics = Topics(
            prefix: prefix, orderChanges: try Self.orderChangeTopics(settings, prefix: prefix),
            options: try settings.isOn(.adoption) ? [.adoption] : [])
        self.groupInstance = settings.text(.groupInstance)
        if let name = self.groupInstance,
            name.isEmpty || name.utf8.count > 200 || !name.utf8.allSatisfy(Topics.isNameCharacter)
        {
            throw SettingsError(
                .groupInstance, value: name, "may have 1 to 200 letters, digits, '.', '_' and '-' only")
        }
        self.redis = try settings.redis()
        self.brands = settings.text(.brands, default: "brands")
        self.brandsReload = .seconds(try settings.integer(.brandsReloadSeconds, default: 5, in: 1...3600))
        self.operationsListen = try settings.operationsListen()
        self.logLevel = try settings.choice(.logLevel, default: .info)
        self.logFormat = try settings.choice(.logFormat, default: .json)
        self.shutdownLimit = .seconds(try settings.integer(.shutdownSeconds, default: 20, in: 1...600))
        self.tracesURL = settings.text(.tracesURL)
        guard let url = self.tracesURL else { return }
        do {
            try SpanExporter.check(url: url)
        } catch {
            throw SettingsError(
                .tracesURL, value: url,
                "must be like http://127.0.0.1:4318/v1/traces, without user: \(error)")
        }
    }

    /// Returns the topics of changes, after a check of each name and pattern.
    ///
    /// A pattern must not match a topic that Waybill writes: each of its records would become a dead letter there,
    /// which would be a change again.
    private static func orderChangeTopics(_ settings: Settings, prefix: String) throws(SettingsError) -> [String] {
        guard let text = settings.text(.orderChangeTopics) else { return [] }
        let names = text.split(separator: ",", omittingEmptySubsequences: false).map {
            $0.split(separator: " ").joined(separator: " ")
        }
        func wrong(_ problem: String) -> SettingsError { SettingsError(.orderChangeTopics, value: text, problem) }
        guard names.count <= Self.orderChangeTopicLimit, Set(names).count == names.count else {
            throw wrong("at most \(Self.orderChangeTopicLimit) topics, each once")
        }
        guard names.contains(where: { !Topics.isPattern($0) }) else {
            throw wrong("at least one name: replayed letters and changes from the checkout role go to the first one")
        }
        for name in names {
            let made = Topics(prefix: prefix).made
            guard Topics.isPattern(name) else {
                guard Topics.isName(name) else {
                    throw wrong("\"\(name)\" is not a topic name: letters, digits, '.', '_' and '-', at most 249")
                }
                guard !made.contains(name) else { throw wrong("\(name) has what Waybill makes of changes") }
                continue
            }
            guard let pattern = TopicPattern(name) else { throw wrong("\"\(name)\" is not a regular expression") }
            for matched in made where pattern.matches(matched) {
                throw wrong("\"\(name)\" matches \(matched), which has what Waybill makes of changes")
            }
        }
        return names
    }

    /// Most names and patterns.
    private static let orderChangeTopicLimit = 32

    /// Returns the worker's name in a consumer group; nil for an ordinary member.
    ///
    /// The same name in two groups is not a conflict, but would look like one in a broker's log.
    public func instance(of group: String) -> String? { self.groupInstance.map { "\(group)-\($0)" } }
}

extension Topics {
    /// Source: Kafka's rule for topic names: `[a-zA-Z0-9._-]`
    static func isNameCharacter(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-"):
            true
        default: false
        }
    }

    /// True for a name that Kafka allows.
    public static func isName(_ name: String) -> Bool {
        (1...249).contains(name.utf8.count) && name.utf8.allSatisfy(Self.isNameCharacter)
    }

    /// True for a topic that Waybill writes or reads changes from, by its name or by a pattern.
    public func have(_ name: String) -> Bool {
        (self.made + self.orderChangeSources).contains { own in
            own == name || (Self.isPattern(own) && TopicPattern(own)?.matches(name) == true)
        }
    }
}

/// A pattern of topic names, a POSIX extended regular expression, which librdkafka matches names with.
///
/// Owner: this object owns one compiled expression.
@safe public struct TopicPattern: ~Copyable {
    private var expression = unsafe regex_t()

    /// Nil if the text is not a regular expression. Source: regcomp(3)
    public init?(_ text: String) {
        guard unsafe regcomp(&self.expression, text, REG_EXTENDED | REG_NOSUB) == 0 else { return nil }
    }

    deinit {
        var expression = unsafe self.expression
        unsafe regfree(&expression)
    }

    public func matches(_ name: String) -> Bool {
        var expression = unsafe self.expression
        return unsafe regexec(&expression, name, 0, nil, 0) == 0
    }
}

/// A host and a port to listen on.
public struct ListenAddress: Hashable, Sendable, CustomStringConvertible {
    public let host: String
    /// 0 asks the system for a free port.
    public let port: Int

    public init(host: String, port: Int) {
        self.host = host
        self.port = port
    }

    /// - Parameter text: `host:port`; an IPv6 address is in brackets. Nil if it is not of that form.
    public init?(_ text: String) {
        guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]) else {
            return nil
        }
        var host = text[..<colon]
        if host.hasPrefix("[") && host.hasSuffix("]") {
            host = host.dropFirst().dropLast()
        } else if host.contains(":") {
            return nil
        }
        guard !host.isEmpty else { return nil }
        self.init(host: String(host), port: Int(port))
    }

    /// True if only this machine can connect to it.
    public var isLoopback: Bool { self.host == "localhost" || self.host == "::1" || self.host.hasPrefix("127.") }

    /// The address at which this machine reaches a server that listens on it.
    var connectable: ListenAddress {
        switch self.host {
        case "0.0.0.0": ListenAddress(host: "127.0.0.1", port: self.port)
        case "::": ListenAddress(host: "::1", port: self.port)
        default: self
        }
    }

    public var description: String {
        self.host.contains(":") ? "[\(self.host)]:\(self.port)" : "\(self.host):\(self.port)"
    }
}
