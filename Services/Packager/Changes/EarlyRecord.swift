import FoundationEssentials
import Kafka
import Model
import Store

/// The record of a change that arrived before its order existed, as it is kept in Redis.
///
/// It has the same content as its dead letter, so that both have one identity: see `DeadLetterRecord.identity`.
struct EarlyRecord: Sendable {
    let record: KafkaRecord

    /// The record as Redis keeps it: its place, `topic/partition/offset`, and all but the key, which is the order's;
    /// nil if it is too large.
    var kept: EarlyChanges.Kept? {
        let json: JSON = [
            "cluster": .string(self.record.cluster),
            "headers": .array(
                self.record.headers.map { [.string($0.name), $0.value.map { .string(Self.text($0)) } ?? .null] }),
            "timestamp": .integer(self.record.timestampMilliseconds),
            "value": self.record.value.map { .string(Self.text($0)) } ?? .null,
        ]
        let bytes = json.serialized
        guard bytes.count <= EarlyChanges.recordLimit else { return nil }
        return EarlyChanges.Kept(place: DeadLetter.origin(of: self.record), bytes: bytes)
    }

    init(_ record: KafkaRecord) { self.record = record }

    /// - Returns: nil if it was not made by `kept`.
    init?(_ kept: EarlyChanges.Kept, of key: OrderKey) {
        let parts = kept.place.split(separator: "/")
        guard parts.count == 3, let partition = Int32(parts[1]), let offset = Int64(parts[2]),
            let json = (try? JSON(parsing: kept.bytes))?.object, let timestamp = json["timestamp"]?.integer
        else { return nil }
        var headers: [KafkaHeader] = []
        for pair in json["headers"]?.array ?? [] {
            guard let pair = pair.array, pair.count == 2, let name = pair[0].string else { return nil }
            headers.append(KafkaHeader(name: name, value: Self.bytes(pair[1])))
        }
        self.record = KafkaRecord(
            cluster: json["cluster"]?.string ?? "", topic: String(parts[0]), partition: partition, offset: offset,
            timestampMilliseconds: timestamp, key: Array(key.description.utf8),
            value: Self.bytes(json["value"] ?? .null), headers: headers)
    }

    private static func text(_ bytes: [UInt8]) -> String { Data(bytes).base64EncodedString() }

    private static func bytes(_ json: JSON) -> [UInt8]? {
        json.string.flatMap { Data(base64Encoded: $0) }.map { Array($0) }
    }
}
