public import Kafka

/// All records of one key that are worked on together.
public struct KeyedWork: Sendable {
    /// As it stands in the records; nil for those that have none.
    public let key: [UInt8]?
    /// Never empty; those of one partition in the order of their offsets.
    public let records: [KafkaRecord]
    /// How often this key had to wait before, without having been done in between.
    public let attempts: Int

    public init(key: [UInt8]?, records: [KafkaRecord], attempts: Int = 0) {
        self.key = key
        self.records = records
        self.attempts = attempts
    }

    /// What became of a piece of work.
    public enum Outcome: Hashable, Sendable {
        /// Nothing of it has to come again.
        case done
        /// It has to be tried again; trying is safe at any point.
        ///
        /// - Parameter reason: for people; no secrets.
        case later(reason: String)
    }
}
