import Kafka
import Model
import Operations

/// A record as its source's program gets it.
struct SourceEvent {
    /// The first argument of `map`; null for a tombstone.
    var event: JSON
    /// True for a tombstone, or a row that was deleted.
    var isDeletion = false
    /// True for a row that was there before the changes, as of Debezium's snapshot.
    var isSnapshot = false

    /// The longest value, in bytes; of JSON it may have `JSON.entryLimit` entries.
    static let valueLimit = OrderChange.valueLimit

    /// Decodes a record's value.
    ///
    /// - Throws: `map-undecodable` with what is expected.
    ///
    /// - Parameter schemas: those of the source's registry, by their identifiers, or why there is none.
    init(
        _ record: KafkaRecord, format: Source.Format, schemas: [UInt32: Result<AvroSchema, ChangeFault>],
        decoded: JSON? = nil
    ) throws(ChangeFault) {
        guard let value = record.value else {
            self.init(event: .null, isDeletion: true)
            return
        }
        guard value.count <= Self.valueLimit else {
            throw ChangeFault(
                code: .mapUndecodable,
                reason: "the value has \(value.count) bytes, an event has at most \(Self.valueLimit)")
        }
        if format.hasSchemas {
            let event: JSON
            if let decoded { event = decoded } else { event = try Self.avro(value, schemas) }
            self = format == .avro ? SourceEvent(event: event) : try DebeziumEvent.event(event)
            return
        }
        if let framing = Self.foreignFraming(value) {
            throw ChangeFault(
                code: .mapUndecodable, reason: "the value is \(framing), the source's format is \(format.rawValue)")
        }
        switch format {
        case .json: self.init(event: try Self.json(value))
        case .cloudevents: self.init(event: try Self.cloudEvent(record, value))
        case .debezium, .avro, .avroDebezium: self = try DebeziumEvent.event(try Self.json(value))
        }
    }

    init(event: JSON, isDeletion: Bool = false, isSnapshot: Bool = false) {
        self.event = event
        self.isDeletion = isDeletion
        self.isSnapshot = isSnapshot
    }

    private static func avro(
        _ value: [UInt8], _ schemas: [UInt32: Result<AvroSchema, ChangeFault>]
    ) throws(ChangeFault) -> JSON {
        guard let identifier = SchemaRegistry.identifier(of: value) else {
            let framing = Self.foreignFraming(value) ?? "not framed with a schema's id"
            throw ChangeFault(code: .mapUndecodable, reason: "the value is \(framing), and not Avro by a registry")
        }
        guard let schema = schemas[identifier] else {
            throw ChangeFault(code: .mapUndecodable, reason: "schema \(identifier) was not asked for")
        }
        do { return try AvroDecoder.decode(value, from: 5, try schema.get()) } catch let error as AvroError {
            throw ChangeFault(
                code: .mapUndecodable, reason: "the value does not have schema \(identifier): \(error)")
        } catch let fault as ChangeFault {
            throw fault
        } catch {
            throw ChangeFault(code: .mapUndecodable, reason: "the value cannot be read")
        }
    }

    private static func json(_ bytes: [UInt8]) throws(ChangeFault) -> JSON {
        do { return try JSON(parsing: bytes, replacingLoneSurrogates: true) } catch {
            if error.code == .tooManyEntries {
                throw ChangeFault(code: .mapUndecodable, reason: "the value has \(error)")
            }
            throw ChangeFault(code: .mapUndecodable, reason: "the value is not JSON: \(error)")
        }
    }

    /// Returns the name of a framing that is not JSON; nil if the bytes may be JSON.
    ///
    /// Sources: Confluent, "Wire format"; Apache Avro, "Object container files", "Single-object encoding"; RFC 1952;
    /// RFC 8878
    static func foreignFraming(_ bytes: [UInt8]) -> String? {
        let framings: [(start: [UInt8], name: String)] = [
            (Array("Obj".utf8) + [1], "an Avro object container file"),
            ([0xC3, 0x01], "Avro in single-object encoding"),
            ([0x1F, 0x8B], "compressed with gzip"), ([0x28, 0xB5, 0x2F, 0xFD], "compressed with Zstandard"),
            ([0], "framed with a schema's id (Avro, Protobuf or JSON Schema by a registry)"),
            ([0xEF, 0xBB, 0xBF], "text with a byte order mark"),
        ]
        return framings.first { bytes.starts(with: $0.start) }?.name
    }

    /// Returns the attributes of an event as members of one object, with its `data`.
    ///
    /// Source: CloudEvents Kafka binding 1.0.2 §3.2, §3.3
    private static func cloudEvent(_ record: KafkaRecord, _ value: [UInt8]) throws(ChangeFault) -> JSON {
        let prefix = "ce_"
        let attributes = record.headers.filter { $0.name.hasPrefix(prefix) }
        guard attributes.contains(where: { $0.name == "ce_specversion" }) else {
            let event = try Self.json(value)
            guard event.object?["specversion"] != nil else {
                throw ChangeFault(
                    code: .mapUndecodable,
                    reason: "the value is no CloudEvent: neither $.specversion nor a header ce_specversion is there")
            }
            return event
        }
        var members: [(String, JSON)] = []
        for header in attributes {
            guard let text = header.value.flatMap({ String(validating: $0, as: UTF8.self) }) else {
                throw ChangeFault(code: .mapUndecodable, reason: "header \(header.name) is not UTF-8")
            }
            members.append((String(header.name.dropFirst(prefix.count)), .string(text)))
        }
        members.append(("data", value.isEmpty ? .null : try Self.json(value)))
        return .object(JSONObject(members))
    }

    /// The second argument of `map`.
    static func facts(of record: KafkaRecord) -> JSON {
        func text(_ bytes: [UInt8]?) -> JSON {
            bytes.flatMap { String(validating: $0, as: UTF8.self) }.map { .string($0) } ?? .null
        }
        let headers = record.headers.withoutReserved(except: .merchant)
        var members: [(String, JSON)] = [
            ("topic", .string(record.topic)), ("partition", .integer(Int64(record.partition))),
            ("offset", .integer(record.offset)), ("key", text(record.key)),
            ("headers", .object(JSONObject(headers.map { ($0.name, text($0.value)) }))),
        ]
        if record.timestampMilliseconds >= 0 { members.append(("timestamp", .integer(record.timestampMilliseconds))) }
        return .object(JSONObject(members))
    }
}
