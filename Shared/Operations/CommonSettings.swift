public import Logging

/// What every service reads.
public struct CommonSettings: Sendable {
    /// How log lines look.
    public enum LogFormat: String, CaseIterable, Sendable { case json, text }

    public let kafkaBootstrap: String
    /// Path of a librdkafka properties file.
    public let kafkaProperties: String?
    public let topicPrefix: String
    public let redisURL: String
    public let redisPassword: String?
    /// Directory with one brand a sub-directory.
    public let brands: String
    public let operationsListen: ListenAddress
    public let logLevel: Logger.Level
    public let logFormat: LogFormat
    public let shutdownLimit: Duration

    /// - Throws: `SettingsError` naming key and value.
    public init(_ settings: Settings) throws(SettingsError) {
        self.kafkaBootstrap = settings.text(.kafkaBootstrap, default: "127.0.0.1:9092")
        self.kafkaProperties = settings.text(.kafkaProperties)
        self.topicPrefix = settings.text(.topicPrefix, default: "waybill.")
        guard self.topicPrefix.utf8.count <= 200, self.topicPrefix.utf8.allSatisfy(Self.isTopicCharacter) else {
            throw SettingsError(
                .topicPrefix, value: self.topicPrefix, "may have letters, digits, '.', '_' and '-' only")
        }
        self.redisURL = settings.text(.redisURL, default: "redis://127.0.0.1:6379/0")
        if let path = settings.text(.redisPasswordFile) {
            let content = try settings.content(.redisPasswordFile, of: path, limit: 4096)
            let line = content.prefix { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") }
            guard !line.isEmpty else {
                throw SettingsError(.redisPasswordFile, value: path, "the first line must be the password, it is empty")
            }
            self.redisPassword = String(decoding: line, as: UTF8.self)
        } else {
            self.redisPassword = nil
        }
        self.brands = settings.text(.brands, default: "brands")
        self.operationsListen = try settings.address(.operationsListen, default: "127.0.0.1:9090")
        self.logLevel = try settings.choice(.logLevel, default: .info)
        self.logFormat = try settings.choice(.logFormat, default: .json)
        self.shutdownLimit = .seconds(try settings.integer(.shutdownSeconds, default: 20, in: 1...600))
    }

    /// Source: Kafka's rule for topic names: `[a-zA-Z0-9._-]`
    private static func isTopicCharacter(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-"):
            true
        default: false
        }
    }
}
