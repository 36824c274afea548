import Fetch
import FoundationEssentials
import Model
import Synchronization

/// The schemas of a registry, by their identifiers.
///
/// A schema is fetched once and kept, since an identifier's schema never changes. Bounded: `limit` schemas.
/// Source: Confluent, "Schema Registry API", "Wire format"
final class SchemaRegistry: Sendable {
    /// The place of a registry, and how it is trusted.
    struct Configuration: Sendable {
        /// `https://registry.example`, without a slash at the end.
        var url: String
        /// Addresses that may be connected to though they are not public.
        var addresses: Set<IPAddress> = []
        /// The header `Authorization`; secret.
        var authorization: String?
        var rootsPEM: [UInt8]?
    }

    /// The result of a look-up.
    enum Answer: Sendable {
        case schema(AvroSchema)
        /// The registry says that there is none, or it is none that can be read.
        case missing(ChangeFault)
        /// The registry cannot be asked now; a sentence for people.
        case away(String)
    }

    private static let limit = 10_000
    private static let referenceLimit = 64
    /// The most bytes of an answer, and of a schema's text together with those that it refers to.
    private static let sizeLimit = 1 << 20

    private let configuration: Configuration
    private let fetcher: Fetcher
    private let schemas = Mutex<[UInt32: AvroSchema]>([:])
    /// For `SchemaFetcher`.
    let wanted = Mutex(Wanted())

    /// - Throws: `FetchError` if libcurl cannot be started.
    init(_ configuration: Configuration) throws(FetchError) {
        self.configuration = configuration
        self.fetcher = try Fetcher()
    }

    /// Splits a value into the identifier of its schema and the offset of its data; nil for other framing.
    static func identifier(of value: [UInt8]) -> UInt32? {
        guard value.count >= 5, value[0] == 0 else { return nil }
        return value[1..<5].reduce(0) { $0 << 8 | UInt32($1) }
    }

    /// Returns a schema that was fetched before.
    func stored(_ identifier: UInt32) -> AvroSchema? { self.schemas.withLock { $0[identifier] } }

    /// Returns a schema, from the registry if it is not stored.
    func schema(_ identifier: UInt32) async -> Answer {
        if let known = self.stored(identifier) { return .schema(known) }
        do throws(Failure) {
            let answer = try await self.object("/schemas/ids/\(identifier)")
            let schema = try await self.schema(answer)
            self.schemas.withLock { schemas in
                if schemas.count >= Self.limit { _ = schemas.popFirst() }
                schemas[identifier] = schema
            }
            return .schema(schema)
        } catch {
            switch error {
            case .away(let reason): return .away("the registry: \(reason)")
            case .missing(let reason):
                return .missing(ChangeFault(code: .mapSchemaMissing, reason: "schema \(identifier): \(reason)"))
            }
        }
    }

    private enum Failure: Error {
        case away(String)
        case missing(String)
    }

    private func schema(_ answer: JSONObject) async throws(Failure) -> AvroSchema {
        var reading = Reading()
        try await self.read(answer, "the schema", &reading, depth: 0)
        return AvroSchema(reading.builder)
    }

    /// A schema and what it refers to, one after another.
    private struct Reading {
        var builder = AvroSchema.Builder()
        var names: Set<String> = []
        var bytes = 0
    }

    /// Reads the schemas that an answer refers to, those that they need first, and then its own.
    private func read(
        _ answer: JSONObject, _ what: String, _ reading: inout Reading, depth: Int
    ) async throws(Failure) {
        if let type = answer["schemaType"]?.string, type != "AVRO" {
            let cure = type == "JSON" ? "take the format json" : "it is not decoded, publish Avro or JSON"
            throw .missing("\(what) is of type \(type.prefix(40)), not AVRO: \(cure)")
        }
        guard let text = answer["schema"]?.string else {
            throw .missing("\(what) has no text in the registry's answer")
        }
        for reference in answer["references"]?.array ?? [] {
            guard let subject = reference.object?["subject"]?.string,
                let version = reference.object?["version"]?.integer
            else { throw .missing("a reference of \(what) names no subject and version") }
            guard reading.names.insert("\(subject)/\(version)").inserted else { continue }
            guard depth < 8, reading.names.count <= Self.referenceLimit else {
                throw .missing("it has too many references: \(Self.referenceLimit) are read, 8 behind one another")
            }
            let other = try await self.object("/subjects/\(Self.escaped(subject))/versions/\(version)")
            try await self.read(other, "the reference \(subject.prefix(80))", &reading, depth: depth + 1)
        }
        reading.bytes += text.utf8.count
        guard reading.bytes <= Self.sizeLimit else {
            throw .missing("it has more than \(Self.sizeLimit) bytes together with what it refers to")
        }
        do { try reading.builder.add(Array(text.utf8)) } catch { throw .missing("\(what): \(error)") }
    }

    /// Returns a text for one part of a path, as in RFC 3986 §2.1.
    private static func escaped(_ text: String) -> String {
        text.utf8.map { byte in
            let isPlain =
                (byte | 0x20) &- UInt8(ascii: "a") < 26 || byte &- UInt8(ascii: "0") < 10 || "-._~".utf8.contains(byte)
            let digits = String(byte, radix: 16, uppercase: true)
            return isPlain ? String(UnicodeScalar(byte)) : "%\(digits.count == 1 ? "0" : "")\(digits)"
        }.joined()
    }

    private func object(_ path: String) async throws(Failure) -> JSONObject {
        var request = FetchRequest(url: self.configuration.url + path) { _ in true }
        request.accept = "application/vnd.schemaregistry.v1+json, application/json"
        request.addresses = AddressPolicy(exceptions: self.configuration.addresses)
        request.rootsPEM = self.configuration.rootsPEM
        request.sizeLimit = Self.sizeLimit
        request.timeout = .seconds(10)
        if let value = self.configuration.authorization { request.headers.append(("Authorization", value)) }
        let content: FetchedContent
        do { content = try await self.fetcher.exchange(request) } catch { throw .away("\(error)") }
        let object = (try? JSON(parsing: content.body))?.object
        switch content.status {
        case 200:
            guard let object else { throw .away("its answer to \(path) is not a JSON object") }
            return object
        // A proxy's 404 is not the registry's, whose errors have numbers that begin with the status.
        case 404 where object?["error_code"]?.integer.map { $0 / 100 == 404 } == true:
            throw .missing(object?["message"]?.string ?? "not found")
        default: throw .away("it answers \(content.status) to \(path)")
        }
    }
}
