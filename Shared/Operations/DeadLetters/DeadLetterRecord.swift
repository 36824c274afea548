import Cryptography
import FoundationEssentials
import Glibc
public import Kafka
public import Model

/// A record of `waybill.dead-letters` as it is read back.
public struct DeadLetterRecord: Hashable, Sendable {
    /// The kinds of records in the topic.
    public enum Reading: Sendable {
        case letter(DeadLetterRecord)
        /// A marker: the dead letter of this identity, or of this former one, was replayed.
        case note(UInt64)
        /// A marker: the dead letter of this identity, or of this former one, was closed, by whom and when.
        case purge(UInt64, DeadLetterPurge)
        /// Neither of them.
        case other
    }

    /// The record, without headers of its sender that only Waybill writes.
    public let record: KafkaRecord
    /// A `ChangeFault.Code` or `PushDeadLetterCode`, as the service that wrote it knew it.
    public let code: String
    public let reason: String
    /// `topic/partition/offset`
    public let origin: String
    /// The place in the record's headers where those of the dead letter begin, after those of its sender.
    private let start: Int

    /// Makes the dead letter of a record that is about to have one.
    public init(record: KafkaRecord, code: String, reason: String, origin: String) {
        self.init(record, code: code, reason: reason, origin: origin, start: record.headers.count)
    }

    private init(_ record: KafkaRecord, code: String, reason: String, origin: String, start: Int) {
        self.record = record
        self.code = code
        self.reason = reason
        self.origin = origin
        self.start = start
    }

    public static func read(_ record: KafkaRecord) -> Reading {
        guard let start = record.headers.startOfDeadLetter else { return Self.marker(record) }
        let own = record.headers[start...]
        guard let code = own.text(.error), let origin = own.text(.origin) else { return .other }
        let senders = record.headers[..<start].withoutReserved(except: .merchant)
        return .letter(
            DeadLetterRecord(
                record.with(headers: senders + own), code: code, reason: own.text(.reason) ?? "", origin: origin,
                start: senders.count))
    }

    /// Reads a marker as `note` and `purge` make it. A dead letter is none, whatever headers its record came with.
    private static func marker(_ record: KafkaRecord) -> Reading {
        guard record.value == nil, let origin = record.headers.text(.origin) else { return .other }
        func identity(_ header: RecordHeader) -> UInt64? {
            guard let former = record.headers.text(header).flatMap({ UInt64($0, radix: 16) }) else { return nil }
            // The release before wrote no other one.
            guard let text = record.headers.text(.identity) else {
                return Self.formerIdentity(former, origin: origin, key: record.key)
            }
            return UInt64(text, radix: 16)
        }
        if let identity = identity(.replayed) { return .note(identity) }
        guard let identity = identity(.purged) else { return .other }
        let by = ForeignText.shortened(record.headers.text(.purgedBy) ?? "-", DeadLetterPurge.nameLimit)
        return .purge(identity, DeadLetterPurge(by: by, milliseconds: record.timestampMilliseconds))
    }

    private var own: ArraySlice<KafkaHeader> { self.record.headers[self.start...] }

    public var position: DeadLetterPosition {
        DeadLetterPosition(partition: self.record.partition, offset: self.record.offset)
    }

    /// The order's key, or the bytes of what should be one.
    public var order: String {
        guard let key = self.record.key else { return "-" }
        return String(validating: key, as: UTF8.self) ?? "base64:\(Data(key).base64EncodedString())"
    }

    /// The position of the change in its topic; nil if the header does not give it.
    public var source: DeadLetterPosition? {
        let parts = self.origin.split(separator: "/")
        return parts.count < 3 ? nil : DeadLetterPosition(parts.suffix(2).joined(separator: "/"))
    }

    /// The topic that the change was on; nil if the header does not give it.
    public var sourceTopic: String? {
        let parts = self.origin.split(separator: "/")
        return parts.count < 3 ? nil : parts.dropLast(2).joined(separator: "/")
    }

    /// Distinguishes this dead letter from all others, but not from its duplicates: a worker that is killed between
    /// sending a dead letter and committing sends another one for the same record.
    ///
    /// Key and value are part of it, since a topic that was recreated counts its offsets from 0 again. For a
    /// notification the device replaces the value, since the attempts after a kill differ.
    public var identity: UInt64 { Self.identity(origin: self.origin, key: self.record.key, content: self.content) }

    /// The identity by which markers of the release before name it.
    var formerIdentity: UInt64 {
        Self.formerIdentity(self.formerHash, origin: self.origin, key: self.record.key)
    }

    private var content: [UInt8]? {
        let device = self.isPush ? self.notification?["device"]?.string : nil
        return device.map { Array($0.utf8) } ?? self.record.value
    }

    /// The hash that the release before reads in a marker. Other records may have the same by intention.
    private var formerHash: UInt64 {
        var hash = FNV1a()
        for field in [Array(self.origin.utf8), self.record.key, self.content] { hash.combine(field: field) }
        return hash.value
    }

    /// Returns the identity of the dead letter of a change.
    public static func identity(origin: String, key: [UInt8]?, content: [UInt8]?) -> UInt64 {
        Self.digest([Array(origin.utf8), key, content])
    }

    /// A record with the same hash has another place or key.
    private static func formerIdentity(_ hash: UInt64, origin: String, key: [UInt8]?) -> UInt64 {
        Self.digest([Array(String(hash, radix: 16).utf8), Array(origin.utf8), key, nil])
    }

    /// The first 64 bits of the SHA-256 of the fields' own: a missing field and an empty one differ.
    private static func digest(_ fields: [[UInt8]?]) -> UInt64 {
        let digests: [[UInt8]] = fields.map { $0.map { [1] + SHA256.digest($0) } ?? [0] }
        return SHA256.digest(Array(digests.joined())).prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
    }

    /// True for a notification that the pusher gave up: it is not a change, so it cannot be replayed. Publishing an old
    /// version of an order again would be a rollback.
    public var isPush: Bool { PushDeadLetterCode.isOne(self.code) }

    /// True for a record of a source, which is mapped again instead of replayed.
    public var isOfSource: Bool { ChangeFault.Code.isOfSource(self.code) }

    /// The source's record as it was; nil for another dead letter, or one that does not give its place.
    public var sourceRecord: KafkaRecord? {
        guard self.isOfSource, let topic = self.sourceTopic, let place = self.source else { return nil }
        let time = self.own.text(.time).flatMap { Int64($0) }
        return KafkaRecord(
            cluster: self.record.cluster, topic: topic, partition: place.partition, offset: place.offset,
            timestampMilliseconds: time ?? self.record.timestampMilliseconds, key: self.record.key,
            value: self.record.value, headers: Array(self.record.headers[..<self.start]))
    }

    /// The content of a notification's dead letter.
    ///
    /// Source: `push-dead-letter.schema.json`
    public var notification: JSONObject? {
        guard self.isPush, let value = self.record.value else { return nil }
        return (try? JSON(parsing: value))?.object
    }

    /// A hash that is the same for all dead letters of an order.
    public var orderHash: UInt64 { Self.orderHash(of: self.record) }

    /// Returns a hash that is the same for all records of a key.
    public static func orderHash(of record: KafkaRecord) -> UInt64 { Self.digest([record.key]) }

    /// True if the value did not fit into the topic, so the change cannot be replayed.
    public var isOmitted: Bool { self.record.value == nil && self.own.text(.omitted) != nil }

    /// Returns the change as it arrived, with a header that names its dead letter.
    public func replay(_ topics: Topics) -> KafkaMessage {
        let letter = "\(topics.deadLetters)/\(self.position)"
        return KafkaMessage(
            topic: topics.orderChanges, key: self.record.key, value: self.record.value,
            headers: self.record.headers[..<self.start].withoutReserved() + [KafkaHeader(.replay, text: letter)])
    }

    /// Returns the marker to write once the change is acknowledged, so that the dead letter is not replayed again.
    ///
    /// It goes to the dead letter's own topic and partition, so it needs no other store, follows its dead letter and is
    /// deleted after it.
    public func note(_ topics: Topics) -> KafkaMessage { self.marker(.replayed, [], topics) }

    /// Returns the marker that closes the dead letter: it is neither listed nor replayed.
    ///
    /// - Parameter name: who closes it.
    public func purge(by name: String, _ topics: Topics) -> KafkaMessage {
        self.marker(.purged, [KafkaHeader(.purgedBy, text: name)], topics)
    }

    private func marker(_ header: RecordHeader, _ more: [KafkaHeader], _ topics: Topics) -> KafkaMessage {
        KafkaMessage(
            topic: topics.deadLetters, partition: self.record.partition, key: self.record.key, value: nil,
            headers: [
                KafkaHeader(header, text: String(self.formerHash, radix: 16)),
                KafkaHeader(.identity, text: String(self.identity, radix: 16)),
                KafkaHeader(.origin, text: self.origin),
            ] + more)
    }
}

/// The closing of a dead letter by an operator.
public struct DeadLetterPurge: Hashable, Sendable {
    /// The most characters of a name.
    static let nameLimit = 200

    public let by: String
    public let milliseconds: Int64

    public init(by: String, milliseconds: Int64) {
        self.by = by
        self.milliseconds = milliseconds
    }

    /// Returns the name for a marker: the one that is given, or that of the user of the system.
    public static func author(_ name: String?) -> String {
        let values = ProcessInfo.processInfo.environment
        let name = name ?? values["SUDO_USER"] ?? values["USER"] ?? "user \(getuid())"
        return ForeignText.shortened(name, Self.nameLimit)
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
