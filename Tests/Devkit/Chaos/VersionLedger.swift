import Kafka
import Model

/// `waybill.orders` as a compacting broker would keep it, and the checks on the history of its versions.
///
/// A version may be published twice, by a process that died before the commit and by its successor, but then with the
/// same content, and a higher version is always later by `updatedAt`. Source: Design §4
struct VersionLedger {
    /// The current state of an order: its last record; no record after a tombstone.
    struct Entry {
        var record: OrderRecord?
        /// `partition/offset` of the last record.
        var place: String
        /// Document and modification second of each version.
        fileprivate var versions: [Int64: (document: Int, modified: Int64, place: String, published: Int64)] = [:]
        /// The time when the version of the last record was first published, milliseconds since 1970; nil after a
        /// tombstone.
        var publishedEpochMilliseconds: Int64? { self.record.flatMap { self.versions[$0.version]?.published } }
    }

    private(set) var entries: [String: Entry] = [:]
    private(set) var records = 0
    /// Bytes of keys and values.
    private(set) var bytes = 0
    /// Records that published a version again.
    private(set) var repeated = 0
    /// Records with an older version than one before them.
    private(set) var late = 0
    /// Violations, as text.
    private(set) var faults: [String] = []

    mutating func take(_ record: KafkaRecord) {
        let key = String(decoding: record.key ?? [], as: UTF8.self)
        let place = "\(record.partition)/\(record.offset)"
        self.records += 1
        self.bytes += (record.key?.count ?? 0) + (record.value?.count ?? 0)
        var entry = self.entries[key] ?? Entry(record: nil, place: place)
        defer { self.entries[key] = entry }

        entry.place = place
        entry.record = nil
        guard let value = record.value else { return }
        let told: OrderRecord
        do {
            told = try OrderRecord.decode(value)
        } catch {
            self.faults.append("order \(key): the record at \(place): \(error)")
            return
        }
        entry.record = told
        let document = JSON.object(told.document.members).text.hashValue
        if let before = entry.versions[told.version] {
            self.repeated += 1
            if before.document != document || before.modified != told.modifiedEpochSeconds {
                self.faults.append(
                    "order \(key): version \(told.version) is told twice with different content, at \(before.place) "
                        + "(updated \(before.modified)) and at \(place) (updated \(told.modifiedEpochSeconds))")
            }
            if let highest = entry.versions.keys.max(), told.version < highest { self.late += 1 }
            return
        }
        for (version, other) in entry.versions {
            if version > told.version, other.modified <= told.modifiedEpochSeconds {
                self.faults.append(
                    "order \(key): version \(told.version) at \(place) is updated at \(told.modifiedEpochSeconds), not "
                        + "before version \(version) at \(other.place) (\(other.modified))")
            }
            if version < told.version, other.modified >= told.modifiedEpochSeconds {
                self.faults.append(
                    "order \(key): version \(told.version) at \(place) is updated at \(told.modifiedEpochSeconds), not "
                        + "behind version \(version) at \(other.place) (\(other.modified))")
            }
        }
        if let highest = entry.versions.keys.max(), told.version < highest { self.late += 1 }
        entry.versions[told.version] = (document, told.modifiedEpochSeconds, place, record.timestampMilliseconds)
    }

    /// The difference between the state in Redis and the last record of the order; nil if there is none.
    ///
    /// Positions are left out: a change without new content moves them in Redis alone. So is the entity tag: a package
    /// that was signed again has another one under the same version.
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
