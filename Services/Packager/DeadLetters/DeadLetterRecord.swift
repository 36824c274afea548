import FoundationEssentials
import Glibc
import Kafka
import Model

/// A record of `waybill.dead-letters` as it is read back.
struct DeadLetterRecord: Hashable, Sendable {
    /// The kinds of records in the topic.
    enum Reading: Sendable {
        case letter(DeadLetterRecord)
        /// A marker: the dead letter of this identity was replayed.
        case note(UInt64)
        /// A marker: the dead letter of this identity was closed, by whom and when.
        case purge(UInt64, DeadLetterPurge)
        /// Neither of them.
        case other
    }

    let record: KafkaRecord
    /// A `ChangeFault.Code` or `PushDeadLetterCode`, as the service that wrote it knew it.
    let code: String
    let reason: String
    /// `topic/partition/offset`
    let origin: String

    init(record: KafkaRecord, code: String, reason: String, origin: String) {
        self.record = record
        self.code = code
        self.reason = reason
        self.origin = origin
    }

    static func read(_ record: KafkaRecord) -> Reading {
        func text(_ name: String) -> String? {
            // The packager's own headers are last; a header of that name that arrived with the change does not count.
            record.headers.last { $0.name == name }?.value.map { String(decoding: $0, as: UTF8.self) }
        }
        if let identity = text(DeadLetterHeader.replayed).flatMap({ UInt64($0, radix: 16) }) { return .note(identity) }
        if let identity = text(DeadLetterHeader.purged).flatMap({ UInt64($0, radix: 16) }) {
            let by = DeadLetterFormatter.shortened(text(DeadLetterHeader.purgedBy) ?? "-", DeadLetterPurge.nameLimit)
            return .purge(identity, DeadLetterPurge(by: by, milliseconds: record.timestampMilliseconds))
        }
        guard let code = text(DeadLetterHeader.error), let origin = text(DeadLetterHeader.origin) else { return .other }
        return .letter(
            DeadLetterRecord(record: record, code: code, reason: text(DeadLetterHeader.reason) ?? "", origin: origin))
    }

    var position: DeadLetterPosition {
        DeadLetterPosition(partition: self.record.partition, offset: self.record.offset)
    }

    /// The order's key, or the bytes of what should be one.
    var order: String {
        guard let key = self.record.key else { return "-" }
        return String(validating: key, as: UTF8.self) ?? "base64:\(Data(key).base64EncodedString())"
    }

    /// The position of the change in its topic; nil if the header does not give it.
    var source: DeadLetterPosition? {
        let parts = self.origin.split(separator: "/")
        return parts.count < 3 ? nil : DeadLetterPosition(parts.suffix(2).joined(separator: "/"))
    }

    /// The topic that the change was on; nil if the header does not give it.
    var sourceTopic: String? {
        let parts = self.origin.split(separator: "/")
        return parts.count < 3 ? nil : parts.dropLast(2).joined(separator: "/")
    }

    /// Distinguishes this dead letter from all others, but not from its duplicates: a worker that is killed between
    /// sending a dead letter and committing sends another one for the same record.
    ///
    /// Key and value are part of it, since a topic that was recreated counts its offsets from 0 again. For a
    /// notification the device replaces the value, since the attempts after a kill differ.
    var identity: UInt64 {
        var hash = FNV1a()
        hash.combine(field: Array(self.origin.utf8))
        hash.combine(field: self.record.key)
        let device = self.isPush ? self.notification?["device"]?.string : nil
        hash.combine(field: device.map { Array($0.utf8) } ?? self.record.value)
        return hash.value
    }

    /// True for a notification that the pusher gave up: it is not a change, so it cannot be replayed. Publishing an old
    /// version of an order again would be a rollback.
    var isPush: Bool { PushDeadLetterCode.isOne(self.code) }

    /// True for a record of a source, which is mapped again instead of replayed.
    var isOfSource: Bool { ChangeFault.Code.isOfSource(self.code) }

    /// The source's record as it was; nil for another dead letter, or one that does not give its place.
    var sourceRecord: KafkaRecord? {
        guard self.isOfSource, let topic = self.sourceTopic, let place = self.source else { return nil }
        let time = self.record.headers.last { $0.name == DeadLetterHeader.time }?.value
            .flatMap { Int64(String(decoding: $0, as: UTF8.self)) }
        return KafkaRecord(
            cluster: self.record.cluster, topic: topic, partition: place.partition, offset: place.offset,
            timestampMilliseconds: time ?? self.record.timestampMilliseconds, key: self.record.key,
            value: self.record.value,
            headers: self.record.headers.filter { !DeadLetterHeader.all.contains($0.name) })
    }

    /// The content of a notification's dead letter.
    ///
    /// Source: `push-dead-letter.schema.json`
    var notification: JSONObject? {
        guard self.isPush, let value = self.record.value else { return nil }
        return (try? JSON(parsing: value))?.object
    }

    /// A hash that is the same for all dead letters of an order.
    var orderHash: UInt64 { Self.orderHash(of: self.record) }

    /// Returns a hash that is the same for all records of a key.
    static func orderHash(of record: KafkaRecord) -> UInt64 {
        var hash = FNV1a()
        hash.combine(field: record.key)
        return hash.value
    }

    /// True if its change was a replayed dead letter.
    var isOfReplay: Bool { self.record.headers.contains { $0.name == DeadLetterHeader.replay } }

    /// True if the value did not fit into the topic, so the change cannot be replayed.
    var isOmitted: Bool { self.record.headers.contains { $0.name == DeadLetterHeader.omitted } }

    /// Returns the change as it arrived, with a header that names its dead letter.
    func replay(_ topics: Topics) -> KafkaMessage {
        let letter = "\(topics.deadLetters)/\(self.position)"
        return KafkaMessage(
            topic: topics.orderChanges, key: self.record.key, value: self.record.value,
            headers: self.record.headers.filter { !DeadLetterHeader.all.contains($0.name) }
                + [KafkaHeader(name: DeadLetterHeader.replay, text: letter)])
    }

    /// Returns the marker to write once the change is acknowledged, so that the dead letter is not replayed again.
    ///
    /// It goes to the dead letter's own topic and partition, so it needs no other store, follows its dead letter and is
    /// deleted after it.
    func note(_ topics: Topics) -> KafkaMessage { self.marker(DeadLetterHeader.replayed, [], topics) }

    /// Returns the marker that closes the dead letter: it is neither listed nor replayed.
    ///
    /// - Parameter name: who closes it.
    func purge(by name: String, _ topics: Topics) -> KafkaMessage {
        self.marker(DeadLetterHeader.purged, [KafkaHeader(name: DeadLetterHeader.purgedBy, text: name)], topics)
    }

    private func marker(_ name: String, _ more: [KafkaHeader], _ topics: Topics) -> KafkaMessage {
        KafkaMessage(
            topic: topics.deadLetters, partition: self.record.partition, key: self.record.key, value: nil,
            headers: [
                KafkaHeader(name: name, text: String(self.identity, radix: 16)),
                KafkaHeader(name: DeadLetterHeader.origin, text: self.origin),
            ] + more)
    }
}

/// The closing of a dead letter by an operator.
struct DeadLetterPurge: Hashable, Sendable {
    /// The most characters of a name.
    static let nameLimit = 200

    let by: String
    let milliseconds: Int64

    /// Returns the name for a marker: the one that is given, or that of the user of the system.
    static func author(_ name: String?) -> String {
        let values = ProcessInfo.processInfo.environment
        let name = name ?? values["SUDO_USER"] ?? values["USER"] ?? "user \(getuid())"
        return DeadLetterFormatter.shortened(name, Self.nameLimit)
    }
}

extension FNV1a {
    /// Adds a field, delimited from the next: a missing field and an empty one differ, and each ends with its length.
    fileprivate mutating func combine(field: [UInt8]?) {
        self.combine(field ?? [])
        self.combine(field == nil ? 1 : 0)
        let count = UInt64(field?.count ?? 0)
        for shift in stride(from: UInt64(0), to: 64, by: 8) { self.combine(UInt8(truncatingIfNeeded: count >> shift)) }
    }
}
