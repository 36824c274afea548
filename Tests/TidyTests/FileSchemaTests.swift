import Foundation
import Testing

/// The schemas of operators' files, against the members that the code reads.
@Suite struct FileSchemaTests {
    @Test(arguments: [
        ("brand", "Shared/Brands/Loading/BrandFile.swift"),
        ("merchant", "Services/Checkout/Merchants/Merchant+load.swift"),
        ("source", "Services/Packager/Sources/Source.swift"),
    ])
    func theSchemaHasTheMembersThatAreRead(schema: String, reader: String) throws {
        let text = try DocumentTests.text("Shared/Model/Schemas/\(schema).schema.json")
        let members = Self.members(try JSONSerialization.jsonObject(with: Data(text.utf8)))
        #expect(members.count > 10)
        let read = Self.names(readBy: try DocumentTests.text(reader))
        #expect(read.subtracting(members).sorted() == [], "\(reader) reads them, the schema does not have them")
        #expect(members.subtracting(read).sorted() == [], "the schema has them, \(reader) does not read them")
    }

    /// The tables that no other test compares with the schema of order.json.
    @Test(arguments: ["Tests/Devkit/Verify/OrderGrammar.swift", "Shared/Model/Documentation.docc/WalletOrders.md"])
    func eachMemberOfOrderJSONIsInTheTables(path: String) throws {
        let text = try DocumentTests.text("Shared/Model/Schemas/order.schema.json")
        let members = Self.members(try JSONSerialization.jsonObject(with: Data(text.utf8)))
        #expect(members.count > 80)
        let table = try DocumentTests.text(path)
        let missing = members.filter { !table.contains("\"\($0)\"") && !table.contains("`\($0)`") }
        #expect(missing.sorted() == [], "\(path) does not have them")
    }

    @Test func aMemberIsFoundWhereverItIsRead() {
        let text = #"a = try file.text("one"); b = try Self.part(&file, "two", 1); c.contains("three"); d("a b")"#
        #expect(Self.names(readBy: text) == ["one", "two"])
    }

    /// Returns the names of all properties that a schema has.
    private static func members(_ value: Any) -> Set<String> {
        if let list = value as? [Any] { return list.reduce(into: []) { $0.formUnion(self.members($1)) } }
        guard let object = value as? [String: Any] else { return [] }
        let own = (object["properties"] as? [String: Any]).map { Set($0.keys) } ?? []
        return object.values.reduce(into: own) { $0.formUnion(self.members($1)) }
    }

    /// Returns the first arguments of calls that are a single word, after one that is passed `inout`.
    private static func names(readBy text: String) -> Set<String> {
        Set(
            text.matches(of: /(\w+)\((?:&\w+, )?"([a-z][A-Za-z0-9]*)"/)
                .filter { $0.output.1 != "contains" }.map { String($0.output.2) })
    }
}
