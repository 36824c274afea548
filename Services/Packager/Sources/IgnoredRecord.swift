/// The reason why a record of a source becomes no change.
enum IgnoredRecord: String, CaseIterable, Sendable {
    /// The program returned no change.
    case unmapped
    /// It is from before the source's `start`.
    case early
    /// A tombstone or a deleted row, which the source does not take.
    case deletion
    /// A message that an application wrote into the log of its database, `op` is `m`.
    case message
    /// A table was emptied, `op` is `t`.
    case truncation
    /// The begin or the end of a transaction.
    case transaction
    /// A sign of life of a connector.
    case heartbeat
    /// A table was altered.
    case schemaChange = "schema-change"
    /// A notification of a connector's progress.
    case notification

    /// For people: why a record is ignored.
    var reason: String {
        switch self {
        case .unmapped: "map.lua returned no change"
        case .early: "it is from before the source's start"
        case .deletion: "it is a tombstone or a deleted row, and deletions is not true"
        case .message: "it is a logical message of Debezium (op is m), about no row"
        case .truncation: "it is a truncation of a table (op is t), about no row"
        case .transaction: "it is the begin or end of a transaction, about no row"
        case .heartbeat: "it is a heartbeat of Debezium, about no row"
        case .schemaChange: "it is a schema change of a table, about no row"
        case .notification: "it is a notification of Debezium, about no row"
        }
    }
}
