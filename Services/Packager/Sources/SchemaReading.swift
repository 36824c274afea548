import Model
import Sandbox

/// A schema as a registry sent it: its answer, and those to what it refers to. Nothing here has looked at it.
struct SchemaDocuments: Sendable {
    let answer: [UInt8]
    var references: [(name: SchemaReference, answer: [UInt8])] = []

    init(_ answer: [UInt8]) { self.answer = answer }

    var size: Int { self.references.reduce(self.answer.count) { $0 + $1.answer.count } }

    func write(to writer: inout SandboxWriter) {
        writer.add(self.answer)
        writer.add(self.references) { writer, reference in
            writer.add(reference.name)
            writer.add(reference.answer)
        }
    }

    init(reading reader: inout SandboxReader) throws(SandboxFormatError) {
        self.answer = try reader.data()
        self.references = try reader.list(limit: .max) { (reader) throws(SandboxFormatError) in
            (try reader.reference(), try reader.data())
        }
    }
}

/// A schema that another one refers to.
struct SchemaReference: Hashable, Sendable {
    let subject: String
    let version: Int64
}

/// Reading a schema's documents, in a mapper process.
enum SchemaReading {
    case schema(AvroSchema)
    /// A document is needed that is not there.
    case needs(SchemaReference)
    /// The document of a reference, or of the schema itself, is no JSON object.
    case unreadable(SchemaReference?)
    /// It is no schema that can be read; a sentence.
    case missing(String)

    static let referenceLimit = 64
    /// The most bytes of a schema's text together with those that it refers to.
    static let sizeLimit = 1 << 20

    static func read(_ documents: SchemaDocuments) -> SchemaReading {
        var walk = Walk(documents: documents)
        do throws(Stop) {
            try walk.read(documents.answer, nil, depth: 0)
            return .schema(AvroSchema(walk.builder))
        } catch {
            return error.reading
        }
    }

    private struct Stop: Error {
        let reading: SchemaReading

        init(_ reading: SchemaReading) { self.reading = reading }

        init(_ reason: String) { self.reading = .missing(reason) }
    }

    private struct Walk {
        let documents: SchemaDocuments
        var builder = AvroSchema.Builder()
        var names: Set<SchemaReference> = []
        var bytes = 0

        /// Reads the schemas that an answer refers to, those that they need first, and then its own.
        mutating func read(_ answer: [UInt8], _ name: SchemaReference?, depth: Int) throws(Stop) {
            guard let object = (try? JSON(parsing: answer))?.object else { throw Stop(.unreadable(name)) }
            let what = name.map { "the reference \($0.subject.prefix(80))" } ?? "the schema"
            if let type = object["schemaType"]?.string, type != "AVRO" {
                let cure = type == "JSON" ? "take the format json" : "it is not decoded, publish Avro or JSON"
                throw Stop("\(what) is of type \(type.prefix(40)), not AVRO: \(cure)")
            }
            guard let text = object["schema"]?.string else {
                throw Stop("\(what) has no text in the registry's answer")
            }
            for element in object["references"]?.array ?? [] {
                guard let subject = element.object?["subject"]?.string,
                    let version = element.object?["version"]?.integer
                else { throw Stop("a reference of \(what) names no subject and version") }
                let reference = SchemaReference(subject: subject, version: version)
                guard self.names.insert(reference).inserted else { continue }
                guard depth < 8, self.names.count <= SchemaReading.referenceLimit else {
                    throw Stop(
                        "it has too many references: \(SchemaReading.referenceLimit) are read, 8 behind one another")
                }
                guard let other = self.documents.references.first(where: { $0.name == reference }) else {
                    throw Stop(.needs(reference))
                }
                try self.read(other.answer, reference, depth: depth + 1)
            }
            self.bytes += text.utf8.count
            guard self.bytes <= SchemaReading.sizeLimit else {
                throw Stop("it has more than \(SchemaReading.sizeLimit) bytes together with what it refers to")
            }
            do { try self.builder.add(Array(text.utf8)) } catch { throw Stop("\(what): \(error)") }
        }
    }

    /// The outcome as the parent gets it.
    enum Outcome: Sendable {
        case readable
        case needs(SchemaReference)
        case unreadable(SchemaReference?)
        case missing(String)

        var bytes: [UInt8] {
            var writer = SandboxWriter()
            switch self {
            case .readable: writer.add(UInt8(0))
            case .needs(let reference):
                writer.add(UInt8(1))
                writer.add(reference)
            case .unreadable(let reference):
                writer.add(UInt8(2))
                writer.add(reference) { $0.add($1) }
            case .missing(let reason):
                writer.add(UInt8(3))
                writer.add(reason)
            }
            return writer.bytes
        }

        init(reading bytes: [UInt8]) throws(SandboxFormatError) {
            var reader = SandboxReader(bytes)
            switch try reader.byte() {
            case 0: self = .readable
            case 1: self = .needs(try reader.reference())
            case 2:
                self = .unreadable(
                    try reader.optional { (reader) throws(SandboxFormatError) in try reader.reference() })
            case 3: self = .missing(String(try reader.text().prefix(1000)))
            default: throw SandboxFormatError()
            }
        }

        fileprivate init(_ reading: SchemaReading) {
            self =
                switch reading {
                case .schema: .readable
                case .needs(let reference): .needs(reference)
                case .unreadable(let reference): .unreadable(reference)
                case .missing(let reason): .missing(reason)
                }
        }
    }

    static func outcome(_ documents: SchemaDocuments) -> Outcome { Outcome(Self.read(documents)) }
}

/// The refusal of a registry: the number of its error, and its message.
struct RegistryRefusal: Sendable {
    let code: Int64
    let message: String?

    /// - Returns: nil for a text that is none, such as that of a proxy.
    init?(parsing body: [UInt8]) {
        guard let object = (try? JSON(parsing: body))?.object, let code = object["error_code"]?.integer else {
            return nil
        }
        (self.code, self.message) = (code, object["message"]?.string)
    }

    var bytes: [UInt8] {
        var writer = SandboxWriter()
        writer.add(self.code)
        writer.add(self.message) { $0.add($1) }
        return writer.bytes
    }

    init(reading bytes: [UInt8]) throws(SandboxFormatError) {
        var reader = SandboxReader(bytes)
        self.code = try reader.integer()
        self.message = try reader.optionalText().map { String($0.prefix(1000)) }
    }
}

extension SandboxWriter {
    fileprivate mutating func add(_ reference: SchemaReference) {
        self.add(reference.subject)
        self.add(reference.version)
    }
}

extension SandboxReader {
    fileprivate mutating func reference() throws(SandboxFormatError) -> SchemaReference {
        SchemaReference(subject: try self.text(), version: try self.integer())
    }
}
