/// Where Kafka is and how to speak with it.
public struct KafkaConfiguration: Sendable {
    /// `host:port`, several with commas.
    public var bootstrap: String
    /// librdkafka properties; they override the wrapper's defaults except the reserved ones.
    public var properties: [String: String]
    /// Where the properties were read from, for messages.
    public var file: String?
    /// Gets what a service may want to log; default: nothing is logged.
    ///
    /// Called on threads of librdkafka and of the wrapper: return at once, call nothing of this module.
    public var onEvent: (@Sendable (KafkaEvent) -> Void)?

    public init(
        bootstrap: String, properties: [String: String] = [:], file: String? = nil,
        onEvent: (@Sendable (KafkaEvent) -> Void)? = nil
    ) {
        self.bootstrap = bootstrap
        self.properties = properties
        self.file = file
        self.onEvent = onEvent
    }

    /// Properties that this module sets by itself because its promises hang on them.
    static let reserved: [String: String] = [
        "bootstrap.servers": "the bootstrap address is given apart from the properties",
        "metadata.broker.list": "the bootstrap address is given apart from the properties",
        "group.id": "the group is named by the service",
        "group.instance.id": "the member is named by the service",
        "enable.auto.commit": "positions are committed when their work is done",
        "enable.auto.offset.store": "positions are committed when their work is done",
        "log.queue": "log lines go to the service's log",
        "transactional.id": "transactions are not used",
    ]

    /// True for properties whose value may never stand in a message.
    static func isSecret(_ name: String) -> Bool {
        let marks = ["password", "secret", "ssl.key", "key.pem", "oauthbearer.config", "jaas", "passphrase"]
        return marks.contains { name.contains($0) }
    }

    /// Looks whether librdkafka knows all names and takes all values, without making a handle.
    ///
    /// What it says of several together, and of files that they name, shows when a handle is made.
    /// - Throws: `.configuration` naming the property.
    public func check() throws(KafkaError) {
        try KafkaHandle.check(try self.resolved(defaults: [:], fixed: [:]))
    }

    /// Makes something of this configuration; what is wrong with it is said with the file.
    func naming<Value>(_ make: () throws(KafkaError) -> Value) throws(KafkaError) -> Value {
        do {
            return try make()
        } catch {
            guard let file, error.code == .configuration else { throw error }
            throw KafkaError(.configuration, "\(error.message), see \(file)", libraryCode: error.libraryCode)
        }
    }

    /// The properties of a handle, in a fixed order: defaults, then the caller's, then what is fixed.
    ///
    /// - Throws: `.configuration` for a reserved property or an empty bootstrap address.
    func resolved(defaults: [String: String], fixed: [String: String]) throws(KafkaError) -> [(String, String)] {
        guard !self.bootstrap.isEmpty else { throw KafkaError(.configuration, "reading the bootstrap address: empty") }
        for (name, reason) in Self.reserved.sorted(by: { $0.key < $1.key }) where self.properties[name] != nil {
            throw KafkaError(.configuration, "setting \(name): \(reason)")
        }
        var all = defaults
        // Aliases of one setting: the caller's spelling wins over the default's.
        for (alias, name) in Self.aliases where self.properties[alias] != nil { all[name] = nil }
        all.merge(self.properties) { _, given in given }
        all.merge(fixed) { _, fixed in fixed }
        all["bootstrap.servers"] = self.bootstrap
        return all.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }

    /// Source: librdkafka CONFIGURATION.md, "Alias for"
    private static let aliases = [
        ("message.timeout.ms", "delivery.timeout.ms"), ("queue.buffering.max.ms", "linger.ms"),
        ("request.required.acks", "acks"),
    ]
}
