import Fetch
import FoundationEssentials
import Model
import Synchronization

/// The schemas of a registry, by their identifiers, as it sent them: a mapper process reads them.
///
/// A schema is fetched once and kept, since an identifier's schema never changes. Bounded by `limit` and `bytesLimit`.
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
        case schema(SchemaDocuments)
        /// The registry says that there is none, or it is none that can be read.
        case missing(ChangeFault)
        /// The registry cannot be asked now; a sentence for people.
        case away(String)
    }

    private static let limit = 10_000
    private static let bytesLimit = 32 << 20
    /// The most bytes of an answer.
    private static let answerLimit = SchemaReading.sizeLimit

    private struct Stored {
        var schemas: [UInt32: SchemaDocuments] = [:]
        var bytes = 0

        mutating func add(_ documents: SchemaDocuments, of identifier: UInt32) {
            self.bytes += documents.size - (self.schemas[identifier]?.size ?? 0)
            self.schemas[identifier] = documents
            while self.schemas.count > limit || self.bytes > bytesLimit,
                let other = self.schemas.keys.first(where: { $0 != identifier })
            {
                self.bytes -= self.schemas.removeValue(forKey: other)?.size ?? 0
            }
        }
    }

    private let configuration: Configuration
    private let fetcher: Fetcher
    private let schemas = Mutex(Stored())
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
    func stored(_ identifier: UInt32) -> SchemaDocuments? { self.schemas.withLock { $0.schemas[identifier] } }

    /// Returns a schema, from the registry if it is not stored.
    ///
    /// - Parameter owner: the name of its source.
    func schema(_ identifier: UInt32, _ mapper: Mapper, of owner: String) async -> Answer {
        if let known = self.stored(identifier) { return .schema(known) }
        do throws(Failure) {
            let documents = try await self.documents(identifier, mapper, owner)
            self.schemas.withLock { $0.add(documents, of: identifier) }
            return .schema(documents)
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

    /// Fetches the schema, and one after another what it refers to.
    private func documents(
        _ identifier: UInt32, _ mapper: Mapper, _ owner: String
    ) async throws(Failure) -> SchemaDocuments {
        let path = "/schemas/ids/\(identifier)"
        var documents = SchemaDocuments(try await self.answer(path, mapper, owner))
        while true {
            let outcome: SchemaReading.Outcome
            do throws(MapperUnavailable) { outcome = try await mapper.read(documents, of: owner) } catch {
                throw .away("\(error)")
            }
            switch outcome {
            case .readable: return documents
            case .needs(let reference):
                guard documents.references.count < SchemaReading.referenceLimit,
                    documents.size <= 2 * SchemaReading.sizeLimit
                else { throw .missing("it refers to too much") }
                let answer = try await self.answer(Self.path(of: reference), mapper, owner)
                documents.references.append((reference, answer))
            case .unreadable(let reference):
                throw .away("its answer to \(reference.map { Self.path(of: $0) } ?? path) is not a JSON object")
            case .missing(let reason): throw .missing(reason)
            }
        }
    }

    private static func path(of reference: SchemaReference) -> String {
        "/subjects/\(Self.escaped(reference.subject))/versions/\(reference.version)"
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

    private func answer(_ path: String, _ mapper: Mapper, _ owner: String) async throws(Failure) -> [UInt8] {
        var request = FetchRequest(url: self.configuration.url + path) { _ in true }
        request.accept = "application/vnd.schemaregistry.v1+json, application/json"
        request.addresses = AddressPolicy(exceptions: self.configuration.addresses)
        request.rootsPEM = self.configuration.rootsPEM
        request.sizeLimit = Self.answerLimit
        request.timeout = .seconds(10)
        if let value = self.configuration.authorization { request.headers.append(("Authorization", value)) }
        let content: FetchedContent
        do { content = try await self.fetcher.exchange(request) } catch { throw .away("\(error)") }
        // A proxy's 404 is not the registry's, whose errors have numbers that begin with the status.
        if content.status == 404, let refusal = await mapper.refusal(content.body, of: owner), refusal.code / 100 == 404
        {
            throw .missing(refusal.message ?? "not found")
        }
        guard content.status == 200 else { throw .away("it answers \(content.status) to \(path)") }
        return content.body
    }
}
