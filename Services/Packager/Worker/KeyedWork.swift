import Kafka

/// All records of one key that are processed together.
struct KeyedWork: Sendable {
    /// The key of the records; nil for those that have none.
    let key: [UInt8]?
    /// Never empty; those of one partition in the order of their offsets.
    let records: [KafkaRecord]
    /// The number of times this key had to wait, without having been done in between.
    let attempts: Int

    init(key: [UInt8]?, records: [KafkaRecord], attempts: Int = 0) {
        self.key = key
        self.records = records
        self.attempts = attempts
    }

    /// The outcome of a piece of work.
    enum Outcome: Hashable, Sendable {
        /// Fully processed.
        case done
        /// It must be retried; a retry is safe at any point.
        ///
        /// - Parameter reason: for people; no secrets.
        case later(reason: String)
        /// It waits for records that may still arrive for its key, and is tried again when one does, at the latest
        /// after this time. Nothing is wrong with it.
        case awaits(Duration)
    }
}
