/// The names of Waybill's topics, and of the consumer groups that read them.
///
/// Source: Design §3
public struct Topics: Hashable, Sendable {
    /// The prefix of an installation that has a Kafka cluster to itself.
    public static let defaultPrefix = "waybill."

    /// The beginning of all names.
    public let prefix: String
    /// Changes from upstream, key `<type>/<id>`: the topic that Waybill itself puts changes on.
    public let orderChanges: String
    /// All topics that changes are taken from: names, and patterns that begin with `^`. The first name is
    /// `orderChanges`.
    public let orderChangeSources: [String]
    /// Compacted: the version that stands of each order, key `<type>/<id>`.
    public let orders: String
    /// Compacted: registrations of devices, key `<device>/<type>/<id>`.
    public let registrations: String
    /// Changes that could not be applied, as they came, with the headers of `DeadLetterHeader`.
    public let deadLetters: String
    /// Compacted: who could not be told of a change yet, key `PendingPushKey`.
    public let pushPending: String

    /// - Parameters:
    ///   - prefix: what all names begin with, its separator included.
    ///   - orderChanges: the topics that changes are taken from, names and patterns; none: `<prefix>order-changes`.
    public init(prefix: String = Topics.defaultPrefix, orderChanges: [String] = []) {
        self.prefix = prefix
        let first = orderChanges.first { !Self.isPattern($0) }
        self.orderChanges = first ?? "\(prefix)order-changes"
        self.orderChangeSources = orderChanges.isEmpty ? [self.orderChanges] : orderChanges
        self.orders = "\(prefix)orders"
        self.registrations = "\(prefix)registrations"
        self.deadLetters = "\(prefix)dead-letters"
        self.pushPending = "\(prefix)push-pending"
    }

    /// True for what stands for several topics: a regular expression that begins with `^`.
    public static func isPattern(_ name: String) -> Bool { name.utf8.first == UInt8(ascii: "^") }

    /// The topics that hold what Waybill makes of changes; none of them may be taken for a topic of changes.
    public var made: [String] { [self.orders, self.registrations, self.deadLetters, self.pushPending] }

    /// The consumer group of a service: its own name, with any other prefix than the default in front of it.
    ///
    /// Two installations on one cluster therefore share no group, and an access list that goes by prefix covers topics
    /// and groups alike.
    ///
    /// - Parameter service: `waybill-packager` or `waybill-pusher`.
    public func group(of service: String) -> String {
        self.prefix == Self.defaultPrefix ? service : self.prefix + service
    }
}
