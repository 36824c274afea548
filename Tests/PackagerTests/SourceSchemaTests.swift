import Foundation
import Model
import TestKit
import Testing

@testable import Packager

@Suite struct SourceSchemaTests {
    private static let files: [(name: String, file: JSON)] = [
        (
            "json",
            [
                "topics": ["events", "^more\\..*"], "format": "json", "name": "/s",
                "orderType": "order.com.example.shop",
                "owns": ["status"], "start": "2026-01-01T00:00:00Z", "silentBefore": "2026-01-01T00:00:00Z",
                "constants": ["a": 1], "deletions": true, "unmapped": "dead-letter", "strict": true,
                "limits": ["memoryMiB": 8, "instructions": 100_000, "bytes": 100_000],
            ]
        ),
        (
            "avro",
            [
                "topics": ["events"], "format": "avro", "name": "/s", "orderType": ["b": "order.com.example.shop"],
                "start": "earliest",
                "registry": [
                    "url": "https://r.example", "addresses": ["10.0.0.1"], "authorization": "a", "roots": "r",
                ],
            ]
        ),
        (
            "debezium",
            [
                "topics": ["events"], "format": "debezium", "name": "/s", "orderType": "order.com.example.shop",
                "unavailableValuePlaceholder": "hex:00ff",
            ]
        ),
    ]

    @Test func theSchemaAgreesWithTheReader() throws {
        let fixture = try SourceFixture()
        try fixture.put("s/map.lua", "function map(e) end")
        try fixture.put("s/a", "Bearer x")
        let certificates = try DevelopmentCertificates.copy(
            to: fixture.directory.path("ca"), orderType: "order.com.example.shop")
        try fixture.put("s/r", String(decoding: Data(contentsOf: URL(filePath: certificates.root)), as: UTF8.self))
        let variants = try Self.files.flatMap { name, file in
            try SchemaProgram.judged(file, by: "source").map { ("\(name): \($0.name)", $0.instance, $0.isAccepted) }
        }
        #expect(variants.count { $0.2 } > 20)
        for (name, instance, isAccepted) in variants {
            try fixture.put("s/source.json", String(decoding: instance.serialized, as: UTF8.self))
            let isTaken = (try? fixture.load("s")) != nil
            // No schema knows addresses, and whether a file exists.
            let isBeyondSchemas = ["addresses", "authorization = \"x\"", "roots = \"x\""].contains { name.contains($0) }
            if !isTaken, isAccepted, isBeyondSchemas { continue }
            #expect(isTaken == isAccepted, "\(name): the reader says \(isTaken)")
        }
    }
}
