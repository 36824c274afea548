// The decoders that compose/verify/fuzz feeds. It compiles them into one module with the files that they are in, so
// these are the decoders of the services, and the ordinary build knows nothing of this file.

import Glibc

/// Stands for that of the packager, which needs a record of Kafka.
struct SourceEvent {
    var event: JSON
    var isDeletion = false
    var isSnapshot = false
    var passedOver: IgnoredRecord?
    var foreign = ForeignJSON()

    static func json(
        _ bytes: [UInt8], _ foreign: inout ForeignJSON, _ what: String = ""
    ) throws(ChangeFault) -> JSON {
        do { return try JSON(parsing: bytes, mending: &foreign) } catch {
            throw ChangeFault(code: .mapUndecodable, reason: "\(what): \(error)")
        }
    }
}

/// Stands for libdeflate's.
func zipChecksum(_ bytes: [UInt8]) -> UInt32 { CRC32.checksum(bytes) }

/// A decoder, given any bytes, with what must hold for its result. It may refuse them; it may not trap.
private let decoders: [String: @Sendable ([UInt8]) -> Void] = [
    "json": { bytes in
        let key = JSONScan.text(at: ["id"], in: bytes)
        var foreign = ForeignJSON(repeated: .last)
        if let json = try? JSON(parsing: bytes, mending: &foreign) {
            let member = json.object?["id"]
            precondition(key == member?.string ?? member?.number?.text, "the scan finds another member")
        }
        guard let json = try? JSON(parsing: bytes) else { return }
        let text = json.serialized
        precondition((try? JSON(parsing: text))?.serialized == text, "it is not read back")
    },
    "event": { bytes in
        // A structured event, or a binary one with the headers of its first line.
        _ = try? OrderChange.decode(key: Array("order.com.example.shop/1".utf8), value: bytes, headers: [])
        let end = bytes.firstIndex(of: UInt8(ascii: "\n")) ?? bytes.endIndex
        let headers = bytes[..<end].split(separator: UInt8(ascii: ";")).map { part in
            let pair = part.split(separator: UInt8(ascii: ":"), maxSplits: 1, omittingEmptySubsequences: false)
            return (name: "ce_" + String(decoding: pair[0], as: UTF8.self), value: pair.count > 1 ? Array(pair[1]) : [])
        }
        _ = try? OrderChange.decode(
            key: Array("order.com.example.shop/1".utf8), value: Array(bytes[end...].dropFirst()), headers: headers)
    },
    "order": { bytes in
        guard let json = try? JSON(parsing: bytes) else { return }
        _ = OrderValidator.violations(in: json, allowUnknownMembers: false, nowEpochSeconds: 1_767_268_800)
    },
    "record": { bytes in
        if let record = try? OrderRecord.decode(bytes) {
            precondition((try? OrderRecord.decode(record.encoded)) == record, "it is not read back")
        }
        if let record = try? RegistrationRecord.decode(bytes) {
            precondition((try? RegistrationRecord.decode(record.encoded)) == record, "it is not read back")
        }
        _ = try? PendingPushRecord.decode(bytes)
    },
    "time": { bytes in
        let text = String(decoding: bytes, as: UTF8.self)
        if let seconds = RFC3339.parse(text) { _ = RFC3339.format(epochSeconds: seconds) }
        let moment = try? MomentText(text).epochSeconds(in: "Europe/Berlin")
        if let seconds = RFC3339.parse(text) { precondition(moment == seconds, "a moment is another one") }
    },
    "strings": { bytes in _ = try? OrderStrings(parsing: bytes) },
    "form": { bytes in
        guard let form = try? FormBody(bytes) else { return }
        _ = form.bytes(without: "apple_pay_order_details")
    },
    "avro": { bytes in
        // A schema in the first line, and a value.
        let end = bytes.firstIndex(of: UInt8(ascii: "\n")) ?? bytes.endIndex
        let text: String
        do {
            let schema = try AvroSchema(Array(bytes[..<end]))
            text = try AvroDecoder.json(of: AvroDecoder.text(of: Array(bytes[end...].dropFirst()), schema)).text
        } catch {
            text = "refused: \(error)"
        }
        // For compose/verify/checks/avro.py.
        if unsafe getenv("WAYBILL_FUZZ_PRINT") != nil { print(text) }
    },
    "debezium": { bytes in
        if let json = try? JSON(parsing: bytes) { _ = try? DebeziumEvent.event(json) }
    },
    "picture": { bytes in _ = try? Picture.inspect(bytes) },
    "der": { bytes in
        var reader = DERReader(bytes)
        while let element = reader.next() {
            var inner = DERReader(Array(element.content))
            while inner.next() != nil {}
        }
        _ = DERReader.text(bytes)
    },
]

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzOneInput(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    unsafe chosen(Array(UnsafeBufferPointer(start: start, count: count)))
    return 0
}

/// The decoder that `WAYBILL_FUZZ_DECODER` names, which compose/verify/fuzz has looked up.
private let chosen =
    decoders[unsafe getenv("WAYBILL_FUZZ_DECODER").map { unsafe String(cString: $0) } ?? ""] ?? { _ in
        exit(2)
    }
