import Foundation
import Model
import TestKit
import Testing

@testable import Operations

@Suite struct ConfigurationSchemaTests {
    /// The schema names all keys, and accepts exactly the files that a service reads.
    @Test func theSchemaAgreesWithTheReader() throws {
        let url = Repository.root.appending(path: "Shared/Model/Schemas/configuration.schema.json")
        let schema = try JSON(parsing: [UInt8](Data(contentsOf: url)))
        let names = schema.object?["properties"]?.object?.members.map(\.name)
        #expect(names?.sorted() == SettingKey.allCases.map(\.rawValue).sorted())
        let file: JSON = ["WAYBILL_BRANDS": "brands", "WAYBILL_DRAIN_SECONDS": 5]
        let directory = try TemporaryDirectory("configuration")
        for (name, instance, isAccepted) in try SchemaProgram.judged(file, by: "configuration") {
            let path = try directory.write("waybill.json", String(decoding: instance.serialized, as: UTF8.self))
            let isTaken = (try? Settings(environment: ["WAYBILL_CONFIG": path])) != nil
            #expect(isTaken == isAccepted, "\(name): the reader says \(isTaken)")
        }
    }
}
