import Kafka
import Model

/// `waybill.orders` as a compacting broker would keep it, and the checks on the history of its versions.
///
/// A version may be published twice, by a process that died before the commit and by its successor, but then with the
/// same content. A higher version always has a later `updatedAt`. Source: Design §4
struct VersionLedger {
    /// The current state of an order.
    ///
    /// An order may move when the topic gets more partitions; the partition that it left must then have a tombstone.
    struct Entry {
        /// The last record of each partition and its offset; none after a tombstone.
        fileprivate var live: [Int32: (record: OrderRecord, offset: Int64)] = [:]
        /// The record with the highest version; nil if all partitions end with a tombstone.
        var record: OrderRecord? { self.newest?.value.record }
        /// `partition/offset` of that record; if there is none, of the last record read.
        var place: String { self.newest.map { "\($0.key)/\($0.value.offset)" } ?? self.last }
        private var newest: (key: Int32, value: (record: OrderRecord, offset: Int64))? {
            self.live.max { $0.value.record.version < $1.value.record.version }
        }
        fileprivate var last: String
        /// The versions, by number.
        fileprivate var versions: [Int64: Version] = [:]
        /// The time of the last version that devices are notified of, milliseconds since 1970; nil after a tombstone.
        var publishedEpochMilliseconds: Int64? {
            guard let last = self.record?.version else { return nil }
            return self.versions.filter { $0.key <= last && $0.value.published != nil }.max { $0.key < $1.key }?
                .value.published
        }
    }

    fileprivate struct Version {
        let document: Int
        let modified: Int64
        let place: String
        /// The time of the first record that is not silent, milliseconds since 1970; nil if there is none.
        var published: Int64?
    }

    private(set) var entries: [String: Entry] = [:]
    private(set) var records = 0
    /// Bytes of keys and values.
    private(set) var bytes = 0
    /// The number of records that published a version again, not counting a mirror's copies of the first one.
    private(set) var repeated = 0
    /// The number of records with an older version than an earlier record of the order.
    private(set) var late = 0
    private var violations: [String] = []
    /// Violations, as text.
    var faults: [String] {
        self.violations
            + self.entries.compactMap { key, entry in
                guard entry.live.count > 1 else { return nil }
                return "order \(key): partitions \(entry.live.keys.sorted()) have a record each"
            }.sorted()
    }

    mutating func take(_ record: KafkaRecord) {
        let key = String(decoding: record.key ?? [], as: UTF8.self)
        let place = "\(record.partition)/\(record.offset)"
        self.records += 1
        self.bytes += (record.key?.count ?? 0) + (record.value?.count ?? 0)
        var entry = self.entries[key] ?? Entry(last: place)
        defer { self.entries[key] = entry }

        entry.last = place
        entry.live[record.partition] = nil
        guard let value = record.value else { return }
        let told: OrderRecord
        do {
            told = try OrderRecord.decode(value)
        } catch {
            self.violations.append("order \(key): the record at \(place): \(error)")
            return
        }
        entry.live[record.partition] = (told, record.offset)
        // An order that moves to another partition gets a higher version with the same content, silently.
        let isSilent = record.headers.contains { $0.name == RecordHeader.silent.rawValue }
        let version = Version(
            document: JSON.object(told.document.members).text.hashValue, modified: told.modifiedEpochSeconds,
            place: place, published: isSilent ? nil : record.timestampMilliseconds)
        if let highest = entry.versions.keys.max(), told.version < highest { self.late += 1 }
        guard let before = entry.versions[told.version] else {
            for (number, other) in entry.versions {
                let isHigher = told.version > number
                let (lower, higher) = isHigher ? (other, version) : (version, other)
                guard lower.modified >= higher.modified else { continue }
                if lower.modified == higher.modified, lower.document == higher.document, higher.published == nil {
                    continue
                }
                self.violations.append(
                    "order \(key): version \(told.version) at \(place) is updated at \(version.modified), not "
                        + "\(isHigher ? "after" : "before") version \(number) at \(other.place) (\(other.modified))")
            }
            entry.versions[told.version] = version
            return
        }
        // A mirror keeps timestamps.
        if before.published != record.timestampMilliseconds { self.repeated += 1 }
        if let published = version.published {
            entry.versions[told.version]?.published = min(before.published ?? published, published)
        }
        if before.document != version.document || before.modified != version.modified {
            self.violations.append(
                "order \(key): version \(told.version) is told twice with different content, at \(before.place) "
                    + "(updated \(before.modified)) and at \(place) (updated \(version.modified))")
        }
    }

    /// Returns the difference between the state in Redis and the last record of the order; nil if there is none.
    ///
    /// Positions are not compared, since a change without new content advances them only in Redis. The entity tag is
    /// not compared either, since a package that was signed again has another one under the same version.
    static func difference(_ entry: Entry?, stored: OrderState?) -> String? {
        switch (entry?.record, stored.flatMap { $0.isRemoved ? nil : $0 }) {
        case (nil, nil): return nil
        case (nil, let stored?):
            return "Redis has version \(stored.version), waybill.orders "
                + (entry.map { "a tombstone at \($0.place)" } ?? "no record")
        case (let told?, nil):
            return "Redis has nothing, waybill.orders version \(told.version) at \(entry?.place ?? "?")"
        case (let told?, let stored?):
            let place = entry?.place ?? "?"
            if told.version != stored.version {
                return "Redis has version \(stored.version), waybill.orders \(told.version) at \(place)"
            }
            if told.modifiedEpochSeconds != stored.modifiedEpochSeconds {
                return "version \(stored.version) is updated at \(stored.modifiedEpochSeconds) in Redis, at "
                    + "\(told.modifiedEpochSeconds) in waybill.orders at \(place)"
            }
            if told.token != stored.token {
                return "version \(stored.version) has another token in Redis than in waybill.orders at \(place)"
            }
            guard told.document != stored.document else { return nil }
            let names = Set(told.document.members.members.map(\.name))
                .union(stored.document.members.members.map(\.name))
            let differing = names.filter { told.document.members[$0] != stored.document.members[$0] }.sorted()
            return "version \(stored.version) differs between Redis and waybill.orders at \(place) in "
                + differing.joined(separator: ", ")
        }
    }
}
