import Kafka
import Model
import Operations

/// A record as its source's program gets it.
struct SourceEvent {
    /// A value that a program reads from its text.
    struct Text {
        let bytes: [UInt8]
        /// The identifier of the schema by which Avro was decoded to it; nil for a record's own text.
        var schema: UInt32?
    }

    /// The first argument of `map`; null for a tombstone, and until `read`.
    private(set) var event: JSON
    /// The event's text, of formats in which that is the whole event; nil once it is read.
    private(set) var text: Text?
    /// True for a tombstone, or a row that was deleted.
    var isDeletion = false
    /// True for a row that was there before the changes, as of Debezium's snapshot.
    var isSnapshot = false
    /// The kind of a record that is about no row, and not mapped.
    var passedOver: IgnoredRecord?
    /// Counts the faults of its JSON that were mended.
    var foreign = ForeignJSON()

    /// Decodes a record's value.
    ///
    /// - Throws: `map-undecodable` with what is expected.
    ///
    /// - Parameters:
    ///   - schemas: those of the source's registry, by their identifiers, or why there is none.
    ///   - isDecoded: true for a value of a format with schemas that is the event itself.
    ///   - unavailable: stands for a column that the database did not send.
    ///   - repeated: the value of a member that occurs with several.
    init(
        _ record: KafkaRecord, format: Source.Format, schemas: [UInt32: Result<AvroSchema, ChangeFault>],
        isDecoded: Bool = false, unavailable: UnavailableValue = .standard,
        repeated: ForeignJSON.RepeatedMember = .refuse
    ) throws(ChangeFault) {
        var foreign = ForeignJSON(repeated: repeated)
        guard let value = record.value else {
            if format == .cloudevents, ForeignCloudEvent.isBinary(record) {
                self.init(event: try ForeignCloudEvent.event(record, [], &foreign))
            } else {
                self.init(event: .null, isDeletion: true)
            }
            return
        }
        if format.hasSchemas {
            var event = SourceEvent(event: .null)
            event.foreign = foreign
            event.text = isDecoded ? Text(bytes: value) : try Self.avro(record, value, schemas)
            if format == .avroDebezium {
                try event.read()
                event = try DebeziumEvent.event(event.event, unavailable: unavailable, foreign: event.foreign)
            }
            self = event
            return
        }
        if let framing = Self.foreignFraming(value) {
            throw ChangeFault(
                code: .mapUndecodable, reason: "the value is \(framing), the source's format is \(format.rawValue)")
        }
        let text = try Self.unframed(value)
        switch format {
        case .json:
            self.init(event: .null)
            self.text = Text(bytes: text)
        case .cloudevents: self.init(event: try ForeignCloudEvent.event(record, text, &foreign))
        case .debezium, .avro, .avroDebezium:
            let json = try Self.json(text, &foreign)
            self = try DebeziumEvent.event(json, unavailable: unavailable, foreign: foreign)
            return
        }
        self.foreign = foreign
    }

    init(event: JSON, isDeletion: Bool = false, isSnapshot: Bool = false, passedOver: IgnoredRecord? = nil) {
        self.event = event
        self.isDeletion = isDeletion
        self.isSnapshot = isSnapshot
        self.passedOver = passedOver
    }

    /// Reads the text, if the event has one.
    ///
    /// - Throws: `map-undecodable`
    mutating func read() throws(ChangeFault) {
        guard let text = self.text else { return }
        self.text = nil
        guard let schema = text.schema else {
            self.event = try Self.json(text.bytes, &self.foreign)
            return
        }
        do { self.event = try AvroDecoder.json(of: text.bytes) } catch { throw Self.unlike(schema, error) }
    }

    private static func unlike(_ schema: UInt32, _ error: AvroError) -> ChangeFault {
        ChangeFault(code: .mapUndecodable, reason: "the value does not have schema \(schema): \(error)")
    }

    private static func avro(
        _ record: KafkaRecord, _ value: [UInt8], _ schemas: [UInt32: Result<AvroSchema, ChangeFault>]
    ) throws(ChangeFault) -> Text {
        guard let identifier = SchemaRegistry.identifier(of: value) else {
            let isInHeader = record.headers.contains { $0.name == "__value_schema_id" }
            let framing =
                isInHeader
                ? "without a schema's id, which is in a header: let the producer use PrefixSchemaIdSerializer"
                : "\(Self.foreignFraming(value) ?? "not framed with a schema's id"), and not Avro by a registry"
            throw ChangeFault(code: .mapUndecodable, reason: "the value is \(framing)")
        }
        guard let found = schemas[identifier] else {
            throw ChangeFault(code: .mapUndecodable, reason: "schema \(identifier) was not asked for")
        }
        let schema = try found.get()
        do throws(AvroError) {
            return Text(bytes: try AvroDecoder.text(of: value, from: 5, schema), schema: identifier)
        } catch {
            throw Self.unlike(identifier, error)
        }
    }

    /// Returns the JSON behind the identifier of its schema, with which Confluent's serializer of JSON Schema begins.
    ///
    /// - Returns: the value itself if it begins otherwise.
    private static func unframed(_ value: [UInt8]) throws(ChangeFault) -> [UInt8] {
        guard value.first == 0 else { return value }
        let text = value.dropFirst(5)
        let isSpace: (UInt8) -> Bool = { $0 == 0x20 || $0 == 0x09 || $0 == 0x0A || $0 == 0x0D }
        switch (text.first { !isSpace($0) }, text.last { !isSpace($0) }) {
        case (UInt8(ascii: "{")?, UInt8(ascii: "}")?), (UInt8(ascii: "[")?, UInt8(ascii: "]")?): return Array(text)
        default:
            throw ChangeFault(
                code: .mapUndecodable,
                reason: "the value is framed with a schema's id, and no JSON follows: if it is Avro, the source needs "
                    + "the format avro and a registry; Protobuf is not decoded, publish JSON or Avro")
        }
    }

    static func json(
        _ bytes: [UInt8], _ foreign: inout ForeignJSON, _ what: String = "the value"
    ) throws(ChangeFault) -> JSON {
        do { return try JSON(parsing: bytes, mending: &foreign) } catch {
            let reason =
                switch error.code {
                case .tooManyEntries: "\(what) has \(error)"
                case .duplicateName:
                    "\(what): \(error), with different values; if the last one counts, give source.json "
                        + "\"repeated\": \"last\""
                case .syntax, .invalidUTF8, .tooDeep: "\(what) is not JSON: \(error)"
                }
            throw ChangeFault(code: .mapUndecodable, reason: reason)
        }
    }

    /// Returns the name of a framing that no format has; nil for others.
    ///
    /// Sources: Apache Avro, "Object container files", "Single-object encoding"; AWS Glue Schema Registry, serializer
    /// libraries; RFC 1952; RFC 8878
    static func foreignFraming(_ bytes: [UInt8]) -> String? {
        let framings: [(start: [UInt8], name: String)] = [
            (Array("Obj".utf8) + [1], "an Avro object container file"),
            ([0xC3, 0x01], "Avro in single-object encoding"),
            ([0x03, 0x00], "framed by AWS Glue Schema Registry"), ([0x03, 0x05], "framed by AWS Glue Schema Registry"),
            ([0x1F, 0x8B], "compressed with gzip"), ([0x28, 0xB5, 0x2F, 0xFD], "compressed with Zstandard"),
            ([0xEF, 0xBB, 0xBF], "text with a byte order mark"),
        ]
        return framings.first { bytes.starts(with: $0.start) }?.name
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
