public import Model

/// The rights that a program needs in Kafka: the table of the access lists, and of the checks.
public struct KafkaRole: Hashable, Sendable {
    /// The name of the user in what is made of the table.
    let name: String
    let reads: [String]
    let writes: [String]
    /// The consumer groups that it joins.
    let groups: [String]
    /// The consumer groups whose offsets it reads, without joining them.
    var watchedGroups: [String] = []

    /// The topics that have a name of their own, without patterns.
    private static func named(_ topics: [String]) -> [String] { topics.filter { !Topics.isPattern($0) } }

    public static func gateway(_ topics: Topics) -> KafkaRole {
        KafkaRole(name: "waybill-gateway", reads: [], writes: [topics.registrations], groups: [])
    }

    /// - Parameter webhooks: the topics that webhooks of merchants are written to.
    public static func checkout(_ topics: Topics, webhooks: [String] = []) -> KafkaRole {
        KafkaRole(name: "waybill-checkout", reads: [], writes: [topics.orderChanges] + webhooks, groups: [])
    }

    /// - Parameter sources: the topics of sources, names and patterns.
    public static func ingest(_ topics: Topics, sources: [String]) -> KafkaRole {
        KafkaRole(
            name: "waybill-ingest", reads: sources, writes: [topics.orderChanges, topics.deadLetters],
            groups: [topics.group(of: "waybill-ingest")])
    }

    public static func packager(_ topics: Topics) -> KafkaRole {
        KafkaRole(
            name: "waybill-packager",
            reads: topics.orderChangeSources + [topics.orders, topics.registrations, topics.deadLetters],
            writes: [topics.orders, topics.registrations, topics.deadLetters] + topics.used(.adoption),
            groups: [topics.group(of: "waybill-packager")])
    }

    public static func pusher(_ topics: Topics) -> KafkaRole {
        KafkaRole(
            name: "waybill-pusher", reads: [topics.orders, topics.registrations, topics.pushPending],
            writes: [topics.registrations, topics.pushPending, topics.deadLetters],
            groups: [topics.group(of: "waybill-pusher"), topics.group(of: "waybill-pusher-pending")])
    }

    /// The commands of operators: looking at orders, dead letters and replay, signing again, restoring, moving keys,
    /// telling devices, trying the programs of sources.
    static func tools(_ topics: Topics, sources: [String]) -> KafkaRole {
        let made = Topics.Kind.allCases.filter { $0 != .orderChanges && !$0.isOptional }.map { topics[$0] }
        return KafkaRole(
            name: "waybill-tools", reads: topics.orderChangeSources + made + topics.used(.adoption) + sources,
            writes: [topics.orderChanges] + made, groups: [],
            watchedGroups: [topics.group(of: "waybill-packager")])
    }

    /// All that run all the time or are run by operators. The role `ingest` is one of them if there are sources.
    ///
    /// - Parameters:
    ///   - sources: the topics of sources, names and patterns.
    ///   - webhooks: the topics that webhooks are written to.
    public static func all(_ topics: Topics, sources: [String] = [], webhooks: [String] = []) -> [KafkaRole] {
        [.gateway(topics), .checkout(topics, webhooks: webhooks), .packager(topics)]
            + (sources.isEmpty ? [] : [.ingest(topics, sources: sources)]) + [
                .pusher(topics), .tools(topics, sources: sources),
            ]
    }

    /// The names of its topics without patterns, each once, in the order of the table, with the operations on each.
    ///
    /// Read and Write include Describe. DescribeConfigs lets a service check the topic's settings.
    var rights: [(topic: String, operations: [String])] {
        Self.distinct(Self.named(self.reads + self.writes)).map { topic in
            let read = self.reads.contains(topic) ? ["Read"] : []
            return (topic, read + (self.writes.contains(topic) ? ["Write"] : []) + ["DescribeConfigs"])
        }
    }

    /// The beginnings of topics that its patterns match, each once: Read is granted on all topics that begin with one.
    var prefixes: [String] { Self.distinct(self.reads.compactMap { Self.prefix(of: $0) }) }

    private static func distinct(_ names: [String]) -> [String] {
        names.reduce(into: []) { if !$0.contains($1) { $0.append($1) } }
    }

    /// Returns the text that all topics of a pattern begin with; nil for a name, and for a pattern without such a text.
    ///
    /// It may be shorter than it could be. Source: regex(7)
    static func prefix(of pattern: String) -> String? {
        // Each branch has a beginning of its own.
        guard Topics.isPattern(pattern), !pattern.contains("|") else { return nil }
        var prefix = ""
        var rest = pattern.dropFirst()
        while let first = rest.popFirst() {
            let isDot = first == "\\" && rest.first == "."
            guard isDot || first.isLetter || first.isNumber || "_-".contains(first) else { break }
            if isDot { rest.removeFirst() }
            if let next = rest.first, "*?{".contains(next) { break }
            prefix.append(isDot ? "." : first)
        }
        return prefix.isEmpty ? nil : prefix
    }

    /// Its groups, each once, with the operation on each. Read includes Describe.
    var groupRights: [(group: String, operation: String)] {
        self.groups.map { ($0, "Read") } + self.watchedGroups.map { ($0, "Describe") }
    }

    /// The patterns of topics that it reads and that have no prefix: rights must be granted by name.
    var patterns: [String] { self.reads.filter { Topics.isPattern($0) && Self.prefix(of: $0) == nil } }
}

/// The kinds of authentication for which Strimzi makes a Secret for a KafkaUser.
public enum StrimziAuthentication: String, CaseIterable, Sendable {
    case scram = "scram-sha-512"
    case tls
}

/// The forms of an access list.
public enum AccessListFormat: String, CaseIterable, Sendable {
    /// Kafka's own tool.
    case commands
    /// KafkaUser resources of Strimzi.
    case strimzi
    /// Resources of the provider Mongey/kafka of Terraform.
    case terraform

    /// The parts of a KafkaUser besides its rights.
    public struct StrimziUser: Sendable {
        let cluster: String
        let authentication: StrimziAuthentication

        /// - Parameters:
        ///   - cluster: the name of the resource Kafka.
        ///   - authentication: a kind that a listener of it has.
        public init(cluster: String, authentication: StrimziAuthentication) {
            self.cluster = cluster
            self.authentication = authentication
        }
    }

    /// Returns the access lists of all roles.
    public func text(_ roles: [KafkaRole], strimzi user: StrimziUser) -> String {
        roles.map { self.text($0, user) }.joined(separator: "\n")
    }

    private func text(_ role: KafkaRole, _ user: StrimziUser) -> String {
        let notes = role.patterns.map { "# \(role.name): grant Read on the topics that \($0) matches\n" }.joined()
        switch self {
        case .commands: return notes + Self.commands(role)
        case .strimzi: return notes + Self.strimzi(role, user)
        case .terraform: return notes + Self.terraform(role)
        }
    }

    /// Source: Kafka, "Authorization and ACLs", command line interface
    private static func commands(_ role: KafkaRole) -> String {
        func line(_ operations: [String], _ resource: String) -> String {
            let operations = operations.map { " --operation \($0)" }.joined()
            return
                "kafka-acls.sh --bootstrap-server … --add --allow-principal User:\(role.name)\(operations)"
                + " \(resource)\n"
        }
        return role.rights.map { line($0.operations, "--topic \($0.topic)") }.joined()
            + role.prefixes.map { line(["Read"], "--topic \($0) --resource-pattern-type prefixed") }.joined()
            + role.groupRights.map { line([$0.operation], "--group \($0.group)") }.joined()
    }

    /// Source: Strimzi, `KafkaUser` schema reference, `AclRule`
    private static func strimzi(_ role: KafkaRole, _ user: StrimziUser) -> String {
        func rule(_ type: String, _ name: String, _ operations: [String], _ match: String = "literal") -> String {
            """
                  - resource: {type: \(type), name: \(name), patternType: \(match)}
                    operations: [\(operations.joined(separator: ", "))]

            """
        }
        return """
            apiVersion: kafka.strimzi.io/v1beta2
            kind: KafkaUser
            metadata:
              name: \(role.name)
              labels: {strimzi.io/cluster: \(user.cluster)}
            spec:
              authentication: {type: \(user.authentication.rawValue)}
              authorization:
                type: simple
                acls:

            """ + role.rights.map { rule("topic", $0.topic, $0.operations) }.joined()
                + role.prefixes.map { rule("topic", $0, ["Read"], "prefix") }.joined()
                + role.groupRights.map { rule("group", $0.group, [$0.operation]) }.joined() + "---\n"
    }

    /// Source: Terraform registry, Mongey/kafka, `kafka_acl`
    private static func terraform(_ role: KafkaRole) -> String {
        func resource(_ type: String, _ name: String, _ operation: String, _ match: String = "Literal") -> String {
            let kind = match == "Literal" ? "" : "_\(match)"
            let identifier = "\(role.name)_\(type)\(kind)_\(name)_\(operation)".lowercased().map {
                $0.isLetter || $0.isNumber ? String($0) : "_"
            }.joined()
            return """
                resource "kafka_acl" "\(identifier)" {
                  resource_type       = "\(type)"
                  resource_name       = "\(name)"
                  acl_principal       = "User:\(role.name)"
                  acl_host            = "*"
                  acl_operation       = "\(operation)"
                  acl_permission_type = "Allow"

                  resource_pattern_type_filter = "\(match)"
                }

                """
        }
        return role.rights.map { right in right.operations.map { resource("Topic", right.topic, $0) }.joined() }
            .joined() + role.prefixes.map { resource("Topic", $0, "Read", "Prefixed") }.joined()
            + role.groupRights.map { resource("Group", $0.group, $0.operation) }.joined()
    }
}
