import Fetch
import Model
import TestKit
import TestTraits
import Testing

@testable import Packager

/// Schemas from a registry, by HTTPS.
@Suite(.server) struct SchemaRegistryTests {
    private static func answer(_ schema: String, _ references: String = "[]") -> PictureServer.Answer {
        let text = JSON.string(schema).text
        return PictureServer.Answer(Array(#"{"schema": \#(text), "references": \#(references)}"#.utf8))
    }

    private static func registry(_ server: PictureServer) throws -> SchemaRegistry {
        var configuration = SchemaRegistry.Configuration(url: "https://localhost:\(server.port)")
        configuration.addresses = Set(["127.0.0.1", "::1"].compactMap { IPAddress($0) })
        configuration.rootsPEM = server.rootPEM
        configuration.authorization = "Basic dTpw"
        return try SchemaRegistry(configuration)
    }

    @Test func aSchemaIsFetchedOnceWithWhatItRefersTo() async throws {
        let server = try await PictureServer.start(hosts: ["localhost"])
        try server.answer(
            "/schemas/ids/7",
            Self.answer(
                #"{"type": "record", "name": "R", "fields": [{"name": "e", "type": "com.E"}]}"#,
                #"[{"name": "com.E", "subject": "e/1", "version": 3}]"#))
        try server.answer(
            "/subjects/e%2F1/versions/3", Self.answer(#"{"type": "enum", "name": "com.E", "symbols": ["A", "B"]}"#))
        let registry = try Self.registry(server)
        let mapper = Mapper(SourceFixture.sandbox, count: 1)
        for _ in 0..<3 {
            guard case .schema(let documents) = await registry.schema(7, mapper, of: "a") else {
                Issue.record("no schema")
                return
            }
            guard case .schema(let schema) = SchemaReading.read(documents) else {
                Issue.record("it cannot be read")
                return
            }
            let text = try AvroDecoder.text(of: [0, 0, 0, 0, 7, 2], from: 5, schema)
            #expect(String(decoding: text, as: UTF8.self) == #"{"e":"B"}"#)
        }
        let requests = server.requests
        #expect(requests.map(\.path) == ["/schemas/ids/7", "/subjects/e%2F1/versions/3"])
        #expect(requests.allSatisfy { $0.headers["authorization"] == "Basic dTpw" })
        await server.stop()
        await mapper.close()
    }

    @Test func onlyTheRegistrysOwnAnswerMakesASchemaMissing() async throws {
        let server = try await PictureServer.start(hosts: ["localhost"])
        var missing = PictureServer.Answer(Array(#"{"error_code": 40403, "message": "Schema not found"}"#.utf8))
        missing.status = 404
        try server.answer("/schemas/ids/1", missing)
        for (id, status) in [(2, 404), (3, 401), (4, 403), (5, 500), (6, 503), (7, 302)] {
            try server.answer("/schemas/ids/\(id)", .status(status))
        }
        try server.answer("/schemas/ids/8", PictureServer.Answer(Array("not JSON".utf8)))
        try server.answer(
            "/schemas/ids/9", PictureServer.Answer(Array(#"{"schema": "x", "schemaType": "PROTOBUF"}"#.utf8)))
        let registry = try Self.registry(server)
        let mapper = Mapper(SourceFixture.sandbox, count: 1)
        func isAway(_ id: UInt32) async -> Bool {
            if case .away = await registry.schema(id, mapper, of: "a") { true } else { false }
        }
        func fault(_ id: UInt32) async -> ChangeFault? {
            if case .missing(let fault) = await registry.schema(id, mapper, of: "a") { fault } else { nil }
        }
        #expect(await fault(1) == ChangeFault(code: .mapSchemaMissing, reason: "schema 1: Schema not found"))
        for id in UInt32(2)...8 { #expect(await isAway(id), "\(id)") }
        #expect(await fault(9)?.code == .mapSchemaMissing)
        #expect(
            await fault(9)?.reason
                == "schema 9: the schema is of type PROTOBUF, not AVRO: it is not decoded, publish Avro or JSON")
        await server.stop()
        // It is down; what is known is known.
        #expect(await isAway(1))
        await mapper.close()
    }

    /// Nine records in one another are 36 levels of JSON, and a reason says what is wrong.
    @Test func aSchemaMayBeDeepAndARefusalSaysWhy() async throws {
        func nested(_ levels: Int) -> String {
            var schema = #"{"type":"record","name":"R\#(levels)","fields":[{"name":"v","type":"int"}]}"#
            for level in (1..<levels).reversed() {
                schema = #"{"type":"record","name":"R\#(level)","fields":[{"name":"r","type":["null",\#(schema)]}]}"#
            }
            return schema
        }
        let server = try await PictureServer.start(hosts: ["localhost"])
        try server.answer("/schemas/ids/1", Self.answer(nested(9)))
        try server.answer("/schemas/ids/2", Self.answer(nested(33)))
        try server.answer("/schemas/ids/3", Self.answer("{"))
        try server.answer("/schemas/ids/4", PictureServer.Answer(Array(#"{"id": 4}"#.utf8)))
        try server.answer(
            "/schemas/ids/5", PictureServer.Answer(Array(#"{"schema": "{}", "schemaType": "JSON"}"#.utf8)))
        let long = #"{"type": "fixed", "name": "F", "size": 1, "doc": "\#(String(repeating: "d", count: 300_000))"}"#
        let references = (1...4).map { #"{"name": "r", "subject": "r\#($0)", "version": 1}"# }
        try server.answer("/schemas/ids/6", Self.answer("\"F\"", "[\(references.prefix(3).joined(separator: ","))]"))
        try server.answer("/schemas/ids/7", Self.answer("\"F\"", "[\(references.joined(separator: ","))]"))
        for number in 1...4 { try server.answer("/subjects/r\(number)/versions/1", Self.answer(long)) }
        let registry = try Self.registry(server)
        let mapper = Mapper(SourceFixture.sandbox, count: 1)
        func reason(_ id: UInt32) async -> String? {
            if case .missing(let fault) = await registry.schema(id, mapper, of: "a") { fault.reason } else { nil }
        }
        for id in [UInt32(1), 6] {
            guard case .schema = await registry.schema(id, mapper, of: "a") else {
                Issue.record("\(id): \(await reason(id) ?? "no reason")")
                continue
            }
        }
        #expect(await reason(2)?.hasSuffix("records are nested deeper than 32 levels") == true)
        #expect(await reason(3)?.hasPrefix("schema 3: the schema: it is not JSON: ") == true)
        #expect(await reason(4) == "schema 4: the schema has no text in the registry's answer")
        #expect(await reason(5) == "schema 5: the schema is of type JSON, not AVRO: take the format json")
        #expect(await reason(7) == "schema 7: it has more than 1048576 bytes together with what it refers to")
        await server.stop()
        await mapper.close()
    }
}
