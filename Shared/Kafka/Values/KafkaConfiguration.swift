import Glibc

/// The address of Kafka and the properties for its clients.
public struct KafkaConfiguration: Sendable {
    /// `host:port`, several separated by commas.
    public var bootstrap: String
    /// librdkafka properties; they override the wrapper's defaults, except the reserved ones and `guarantees`.
    public var properties: [String: String]
    /// The file that the properties were read from, for messages.
    public var file: String?
    /// Receives events that a service may want to log; default: nothing is logged.
    ///
    /// Called on threads of librdkafka and of the wrapper: return immediately, call nothing of this module.
    public var onEvent: (@Sendable (KafkaEvent) -> Void)?
    /// Called with the time that the brokers took for a batch of messages (`produce`) or a commit (`commit`).
    public var onAnswer: (@Sendable (_ operation: String, Duration) -> Void)?

    public init(
        bootstrap: String, properties: [String: String] = [:], file: String? = nil,
        onEvent: (@Sendable (KafkaEvent) -> Void)? = nil
    ) {
        self.bootstrap = bootstrap
        self.properties = properties
        self.file = file
        self.onEvent = onEvent
    }

    /// Properties that this module sets by itself because its guarantees depend on them.
    static let reserved: [String: String] = [
        "bootstrap.servers": "remove this line, the bootstrap address is given apart from the properties",
        "metadata.broker.list": "remove this line, the bootstrap address is given apart from the properties",
        "group.id": "the group is named by the service",
        "group.instance.id": "the member is named by the service",
        "enable.auto.commit": "positions are committed when their work is done",
        "enable.auto.offset.store": "positions are committed when their work is done",
        "log.queue": "log lines go to the service's log",
        "enabled_events": "events go to the service's log",
        "transactional.id": "transactions are not used",
    ]

    /// A property that may only have some values, since a guarantee depends on it.
    struct Guarantee {
        let names: [String]
        /// Lower case.
        let values: Set<String>
        let reason: String
    }

    /// The properties that a file shared with other programs may repeat, but not change.
    ///
    /// Source: librdkafka CONFIGURATION.md, with its aliases and other spellings of a value
    static let guarantees: [Guarantee] = [
        Guarantee(
            names: ["acks", "request.required.acks"], values: ["all", "-1"],
            reason: "what is acknowledged must outlive a broker"),
        Guarantee(
            names: ["enable.idempotence"], values: ["true", "t", "1"],
            reason: "what is sent again must be written once and in order"),
        Guarantee(
            names: ["enable.gapless.guarantee"], values: ["false", "f", "0"],
            reason: "a message that fails must not end the producer"),
        Guarantee(
            names: ["max.in.flight", "max.in.flight.requests.per.connection"], values: ["1", "2", "3", "4", "5"],
            reason: "with more requests under way an idempotent producer cannot keep their order"),
        Guarantee(
            names: ["partitioner"], values: ["murmur2_random"],
            reason: "a key must stay in its partition for all producers"),
        Guarantee(
            names: ["delivery.report.only.error"], values: ["false", "f", "0"],
            reason: "success must be reported as well, or nothing is ever done"),
        Guarantee(
            names: ["isolation.level"], values: ["read_committed"],
            reason: "what an aborted transaction wrote must not be applied"),
        Guarantee(
            names: ["auto.offset.reset"], values: ["earliest", "smallest", "beginning"],
            reason: "a new group must not pass over what waits"),
    ]

    /// - Throws: `.configuration` naming property, value and reason.
    private func checkGuarantees() throws(KafkaError) {
        for guarantee in Self.guarantees {
            for name in guarantee.names {
                guard let value = self.properties[name], !guarantee.values.contains(value.lowercased()) else {
                    continue
                }
                throw KafkaError(
                    .configuration,
                    "setting \(name)=\(value): it must be \(guarantee.values.sorted().joined(separator: " or ")), "
                        + "since \(guarantee.reason); remove this line")
            }
        }
    }

    /// Returns true for properties whose value may never appear in a message.
    static func isSecret(_ name: String) -> Bool {
        let marks = ["password", "secret", "ssl.key", "key.pem", "oauthbearer.config", "jaas", "passphrase"]
        return marks.contains { name.contains($0) }
    }

    /// The time after which the group assigns the partitions of a silent consumer to others.
    public var sessionTimeout: Duration {
        let value = self.properties[KafkaConsumer.sessionTimeout.name].flatMap { Int64($0) }
        return value.map { .milliseconds($0) } ?? KafkaConsumer.sessionTimeout.usual
    }

    /// Checks that librdkafka knows all names and accepts all values, without making a handle.
    ///
    /// Its errors about several of them together, and about files that they name, appear when a handle is made.
    /// - Throws: `.configuration` naming the property.
    public func check() throws(KafkaError) {
        try KafkaHandle.check(try self.resolved(defaults: [:], fixed: [:]))
    }

    /// Makes something from this configuration; errors name the file.
    func naming<Value>(_ make: () throws(KafkaError) -> Value) throws(KafkaError) -> Value {
        do {
            return try make()
        } catch {
            guard let file, error.code == .configuration else { throw error }
            throw KafkaError(.configuration, "\(error.message), see \(file)", libraryCode: error.libraryCode)
        }
    }

    /// Returns the properties of a handle, in a fixed order: defaults, then the caller's, then the fixed ones.
    ///
    /// - Throws: `.configuration` for a reserved property, a value that breaks a guarantee, or an empty bootstrap
    ///   address.
    func resolved(defaults: [String: String], fixed: [String: String]) throws(KafkaError) -> [(String, String)] {
        guard !self.bootstrap.isEmpty else { throw KafkaError(.configuration, "reading the bootstrap address: empty") }
        for (name, reason) in Self.reserved.sorted(by: { $0.key < $1.key }) where self.properties[name] != nil {
            throw KafkaError(.configuration, "setting \(name): \(reason)")
        }
        try self.checkGuarantees()
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

extension KafkaConfiguration {
    /// The most bytes of a properties file, which has some dozens of lines; a larger file is refused.
    static let fileLimit = 1 << 20

    /// Reads a file of librdkafka properties: `name=value` lines, `#` begins a comment line.
    ///
    /// Unknown names are detected when a handle is made.
    /// - Throws: `.configuration` naming the file, and the line that has no `=`.
    public static func properties(file: String) throws(KafkaError) -> [String: String] {
        guard let stream = unsafe fopen(file, "re") else {  // tidy: bounded, no room to import
            throw KafkaError(.configuration, "opening \(file): \(unsafe String(cString: strerror(errno)))")
        }
        defer { unsafe fclose(stream) }

        var bytes = [UInt8](repeating: 0, count: Self.fileLimit + 1)
        let capacity = bytes.count
        let count = unsafe bytes.withUnsafeMutableBytes { unsafe fread($0.baseAddress, 1, capacity, stream) }
        guard unsafe ferror(stream) == 0 else { throw KafkaError(.configuration, "reading \(file): failed") }
        guard count <= Self.fileLimit else {
            throw KafkaError(.configuration, "reading \(file): more than \(Self.fileLimit) bytes")
        }
        guard let text = String(validating: bytes[..<count], as: UTF8.self) else {
            throw KafkaError(.configuration, "reading \(file): not UTF-8")
        }
        do {
            return try Self.properties(text: text)
        } catch {
            throw KafkaError(.configuration, "reading \(file): \(error.message)")
        }
    }

    /// Parses the text of a properties file. A later line overrides an earlier one.
    ///
    /// - Throws: `.configuration` with the number of the line, never its text: it may be a secret.
    static func properties(text: String) throws(KafkaError) -> [String: String] {
        var properties: [String: String] = [:]
        for (index, raw) in text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline).enumerated() {
            let line = trim(raw)
            if line.isEmpty || line.hasPrefix("#") { continue }
            guard let equals = line.firstIndex(of: "="), equals != line.startIndex else {
                throw KafkaError(.configuration, "line \(index + 1) is not name=value")
            }
            properties[String(trim(line[..<equals]))] = String(trim(line[line.index(after: equals)...]))
        }
        return properties
    }

    private static func trim(_ text: Substring) -> Substring {
        var text = text
        while let first = text.first, first.isWhitespace { text.removeFirst() }
        while let last = text.last, last.isWhitespace { text.removeLast() }
        return text
    }
}
