import Kafka
import Model

/// A broken change as published, with the check of the dead letter that it became.
struct BrokenRecord: Sendable {
    let kind: BrokenChange
    let message: KafkaMessage

    /// The packager accepts changes of up to 1 MiB; larger ones may omit their value. Source: Design §3
    private static let valueLimit = 1 << 20

    /// Returns the differences from the expected dead letter: its code, a reason that says where to look, and the
    /// original record.
    func differences(_ letter: KafkaRecord) -> [String] {
        var found: [String] = []
        let names = [RecordHeader.error.rawValue, RecordHeader.reason.rawValue, RecordHeader.origin.rawValue]
        for name in names where letter.headers.count(where: { $0.name == name }) != 1 {
            found.append("the header \(name) is not there exactly once")
        }
        let code = letter.text(of: RecordHeader.error.rawValue)
        let reason = letter.text(of: RecordHeader.reason.rawValue)
        if code != self.kind.code || !reason.contains(self.kind.mention) {
            found.append("\(code): \(reason); expected \(self.kind.code) and a word of \(self.kind.mention)")
        }
        if letter.key != self.message.key { found.append("its key is not the record's") }
        let isTooLarge = (self.message.value?.count ?? 0) > Self.valueLimit
        // Stated in the reason, so that a person knows where the rest is.
        if isTooLarge, letter.value == nil, reason.contains("left out") { return found }
        if letter.value != self.message.value { found.append("its value is not the record's") }
        if letter.headers.filter({ !names.contains($0.name) }) != self.message.headers {
            found.append("its headers are not the record's")
        }
        return found
    }
}

extension KafkaRecord {
    /// Returns the text of the last header with a name; empty if there is none.
    func text(of header: String) -> String {
        String(decoding: self.headers.last { $0.name == header }?.value ?? [], as: UTF8.self)
    }
}
