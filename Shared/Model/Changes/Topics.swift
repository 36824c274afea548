/// The names of Waybill's topics, and of the consumer groups that read them.
///
/// Source: Design §3
public struct Topics: Hashable, Sendable {
    /// The prefix of an installation that has a Kafka cluster to itself.
    public static let defaultPrefix = "waybill."

    /// The topics, by what their names end with.
    public enum Kind: String, CaseIterable, Sendable {
        case orderChanges = "order-changes"
        case orders
        case registrations
        case deadLetters = "dead-letters"
        case pushPending = "push-pending"
        case adoption

        /// True for a topic that exists only where what it is for is switched on.
        public var isOptional: Bool { self == .adoption }
    }

    /// The beginning of all names.
    public let prefix: String
    /// Changes from upstream, key `<type>/<id>`: the topic that Waybill itself writes changes to.
    public let orderChanges: String
    /// All topics that changes are read from: names, and patterns that begin with `^`. The first name is
    /// `orderChanges`.
    public let orderChangeSources: [String]
    /// Compacted: the current version of each order, key `<type>/<id>`.
    public let orders: String
    /// Compacted: registrations of devices, key `<device>/<type>/<id>`.
    public let registrations: String
    /// Changes that could not be applied, as they arrived, with the headers of `RecordHeader`.
    public let deadLetters: String
    /// Compacted: the devices that could not be notified of a change yet, key `PendingPushKey`.
    public let pushPending: String
    /// Compacted: the figures of each brand and day, key `AdoptionKey`.
    public let adoption: String
    /// The optional topics that are in use.
    public let options: Set<Kind>

    /// - Parameters:
    ///   - prefix: the beginning of all names, including its separator.
    ///   - orderChanges: the topics that changes are read from, names and patterns; if empty, `<prefix>order-changes`.
    ///   - options: the optional topics that are in use.
    public init(
        prefix: String = Topics.defaultPrefix, orderChanges: [String] = [], options: Set<Kind> = []
    ) {
        self.prefix = prefix
        self.options = options
        let first = orderChanges.first { !Self.isPattern($0) }
        self.orderChanges = first ?? "\(prefix)\(Kind.orderChanges.rawValue)"
        self.orderChangeSources = orderChanges.isEmpty ? [self.orderChanges] : orderChanges
        self.orders = "\(prefix)\(Kind.orders.rawValue)"
        self.registrations = "\(prefix)\(Kind.registrations.rawValue)"
        self.deadLetters = "\(prefix)\(Kind.deadLetters.rawValue)"
        self.pushPending = "\(prefix)\(Kind.pushPending.rawValue)"
        self.adoption = "\(prefix)\(Kind.adoption.rawValue)"
    }

    /// The name of a topic.
    public subscript(kind: Kind) -> String {
        switch kind {
        case .orderChanges: self.orderChanges
        case .orders: self.orders
        case .registrations: self.registrations
        case .deadLetters: self.deadLetters
        case .pushPending: self.pushPending
        case .adoption: self.adoption
        }
    }

    /// Returns those of some optional topics that are in use.
    public func used(_ kinds: Kind...) -> [String] { kinds.filter(self.options.contains).map { self[$0] } }

    /// Returns true for a pattern, which may match several topics: a regular expression that begins with `^`.
    public static func isPattern(_ name: String) -> Bool { name.utf8.first == UInt8(ascii: "^") }

    /// The topics that Waybill writes results to, in use or not; none of them may be used as a topic of changes.
    public var made: [String] { Kind.allCases.filter { $0 != .orderChanges }.map { self[$0] } }

    /// Returns the consumer group of a service: its own name, preceded by any prefix other than the default.
    ///
    /// Two installations on one cluster therefore share no group, and an access list that goes by prefix covers topics
    /// and groups alike.
    ///
    /// - Parameter service: `waybill-packager` or `waybill-pusher`.
    public func group(of service: String) -> String {
        self.prefix == Self.defaultPrefix ? service : self.prefix + service
    }
}
