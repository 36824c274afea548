/// One record of a partition.
public struct KafkaRecord: Hashable, Sendable {
    /// The identifier of the cluster; empty if the cluster does not report it.
    public let cluster: String
    public let topic: String
    public let partition: Int32
    public let offset: Int64
    /// Milliseconds since 1970; -1 if the record has none.
    public let timestampMilliseconds: Int64
    /// nil is no key, which is not the empty key.
    public private(set) var key: [UInt8]?
    /// nil is a tombstone, which is not the empty value.
    public let value: [UInt8]?
    /// As received: order kept, names may repeat.
    public private(set) var headers: [KafkaHeader]
    /// The assignment of its partition under which it was read; 0 if it did not come from a group's consumer.
    var assignment: UInt64 = 0

    public init(
        cluster: String = "", topic: String, partition: Int32, offset: Int64, timestampMilliseconds: Int64,
        key: [UInt8]?, value: [UInt8]?, headers: [KafkaHeader] = []
    ) {
        self.cluster = cluster
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestampMilliseconds = timestampMilliseconds
        self.key = key
        self.value = value
        self.headers = headers
    }

    /// The position to commit once this record and all before it are done: the next to read.
    public var next: KafkaPosition {
        // An offset is below Int64.max: the broker counts records.
        KafkaPosition(topic: self.topic, partition: self.partition, offset: self.offset &+ 1)
    }

    /// The record's size in a bounded buffer in bytes, bookkeeping included.
    public var size: Int {
        var size = 128 + (self.key?.count ?? 0) + (self.value?.count ?? 0)
        for header in self.headers { size += 32 + header.name.utf8.count + (header.value?.count ?? 0) }
        return size
    }
}

/// A header of a record: a name and bytes, or none.
public struct KafkaHeader: Hashable, Sendable {
    public let name: String
    /// nil is a header without a value, which is not the empty value.
    public let value: [UInt8]?

    public init(name: String, value: [UInt8]?) {
        self.name = name
        self.value = value
    }

    public init(name: String, text: String) {
        self.init(name: name, value: Array(text.utf8))
    }
}

/// A message to be produced.
public struct KafkaMessage: Hashable, Sendable {
    public var topic: String
    /// nil: chosen by the key's murmur2 hash, as Java producers do, or at random without a key.
    public var partition: Int32?
    public var key: [UInt8]?
    /// nil is a tombstone.
    public var value: [UInt8]?
    public var headers: [KafkaHeader]
    /// Milliseconds since 1970, above 0; nil: the moment at which it is produced.
    public var timestampMilliseconds: Int64?

    public init(
        topic: String, partition: Int32? = nil, key: [UInt8]?, value: [UInt8]?, headers: [KafkaHeader] = [],
        timestampMilliseconds: Int64? = nil
    ) {
        self.topic = topic
        self.partition = partition
        self.key = key
        self.value = value
        self.headers = headers
        self.timestampMilliseconds = timestampMilliseconds
    }
}

/// One partition of a topic.
public struct KafkaPartition: Hashable, Sendable, CustomStringConvertible {
    public var topic: String
    public var partition: Int32

    public init(topic: String, partition: Int32) {
        self.topic = topic
        self.partition = partition
    }

    public var description: String { "\(self.topic)/\(self.partition)" }
}

/// A position in a partition: that of a record, or, when committed, of the next record to read.
public struct KafkaPosition: Hashable, Sendable {
    public var topic: String
    public var partition: Int32
    public var offset: Int64

    public init(topic: String, partition: Int32, offset: Int64) {
        self.topic = topic
        self.partition = partition
        self.offset = offset
    }
}

/// The identity of a record that was handed out, so that its work can be finished after its content has been released.
public struct KafkaReceipt: Hashable, Sendable {
    public let topic: String
    public let partition: Int32
    public let offset: Int64
    /// The assignment of its partition under which it was read; 0 if it did not come from a group's consumer.
    let assignment: UInt64

    /// The position of the record.
    public var position: KafkaPosition {
        KafkaPosition(topic: self.topic, partition: self.partition, offset: self.offset)
    }

    /// `topic/partition/offset`, the form in which dead letters name their origin.
    public var origin: String { "\(self.topic)/\(self.partition)/\(self.offset)" }
}

extension KafkaRecord {
    /// The part of the record that the consumer needs back when its work is done.
    public var receipt: KafkaReceipt {
        KafkaReceipt(
            topic: self.topic, partition: self.partition, offset: self.offset, assignment: self.assignment)
    }
}

extension KafkaRecord {
    /// Returns the record with another key.
    public func keyed(_ key: [UInt8]?) -> KafkaRecord {
        var record = self
        record.key = key
        return record
    }

    /// Returns the record with other headers.
    public func with(headers: [KafkaHeader]) -> KafkaRecord {
        var record = self
        record.headers = headers
        return record
    }

    /// Returns the record as if it had been handed out together with another one of its partition.
    public func handedOut(with receipt: KafkaReceipt) -> KafkaRecord {
        var record = self
        record.assignment = receipt.assignment
        return record
    }
}

/// The offsets of a partition at one moment.
public struct OffsetRange: Hashable, Sendable {
    public let partition: Int32
    /// The first offset that still exists; `end` if the partition is empty.
    public let first: Int64
    /// The next offset to be written. Compaction leaves gaps, so there may be fewer records than `end - first`.
    public let end: Int64

    public init(partition: Int32, first: Int64, end: Int64) {
        self.partition = partition
        self.first = first
        self.end = end
    }
}

/// The work that is left to a consumer in the partitions of a topic that it owns.
///
/// Offsets are counted: compaction and transactions leave gaps, so there may be fewer records. A partition counts from
/// its first record on that was handed out since it was assigned.
public struct KafkaProgress: Hashable, Sendable {
    /// Records that are not finished; without those that the worker deferred, whose number only the worker knows.
    public var unworked: Int64 = 0
    /// Records after the committed position, finished or not.
    public var committedLag: Int64 = 0
    /// The time of the first record that is not finished, deferred ones included; too early by at most the time that
    /// its batch took to arrive. Nil: all are finished.
    public var oldestEpochMilliseconds: Int64?

    public init(unworked: Int64 = 0, committedLag: Int64 = 0, oldestEpochMilliseconds: Int64? = nil) {
        self.unworked = unworked
        self.committedLag = committedLag
        self.oldestEpochMilliseconds = oldestEpochMilliseconds
    }

    /// Adds the progress of another partition.
    mutating func add(_ other: KafkaProgress) {
        self.unworked += other.unworked
        self.committedLag += other.committedLag
        self.oldestEpochMilliseconds = [self.oldestEpochMilliseconds, other.oldestEpochMilliseconds]
            .compactMap(\.self).min()
    }
}

/// The records that a worker defers, and those that it resumes.
public struct KafkaDeferral: Sendable {
    /// Records in hand that are deferred: they are not in hand any more, and not done.
    public var putOff: [KafkaReceipt] = []
    /// Records that were deferred and are in hand again.
    public var again: [KafkaReceipt] = []
    /// By partition, the lowest deferred offset from this call on; nil if none is deferred.
    public var holds: [KafkaPartition: Int64?] = [:]

    public init() {}

    public var isEmpty: Bool { self.putOff.isEmpty && self.again.isEmpty && self.holds.isEmpty }
}

/// A topic to be created.
public struct KafkaTopic: Hashable, Sendable {
    public var name: String
    public var partitions: Int
    /// -1 leaves it to the broker's `default.replication.factor`.
    public var replication: Int
    /// The topic's own settings, such as `cleanup.policy=compact` or `max.message.bytes`.
    public var configuration: [String: String]

    public init(name: String, partitions: Int, replication: Int = -1, configuration: [String: String] = [:]) {
        self.name = name
        self.partitions = partitions
        self.replication = replication
        self.configuration = configuration
    }
}
