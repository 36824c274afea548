/// The names of Waybill's topics.
///
/// Source: DESIGN.md §3
public struct Topics: Hashable, Sendable {
    /// Changes from upstream, key `<type>/<id>`.
    public let orderChanges: String
    /// Compacted: the version that stands of each order, key `<type>/<id>`.
    public let orders: String
    /// Compacted: registrations of devices, key `<device>/<type>/<id>`.
    public let registrations: String
    /// Changes that could not be applied, as they came, with the headers of `DeadLetterHeader`.
    public let deadLetters: String

    /// - Parameter prefix: what all names begin with, its separator included.
    public init(prefix: String = "waybill.") {
        self.orderChanges = "\(prefix)order-changes"
        self.orders = "\(prefix)orders"
        self.registrations = "\(prefix)registrations"
        self.deadLetters = "\(prefix)dead-letters"
    }
}
