import Lua
import Model
import Testing

/// A value that lasts longer than an event cannot be changed.
@Suite struct LuaStateTests {
    private static let changes = [
        "local t = $ t.kept = 1", "local t = $ t[1] = 1", "local t = $ t.upper = nil", "table.insert($, 1)",
        "table.remove($)", "table.sort($, function() return true end) table.concat($).kept = 1",
        "for name in pairs($) do $[name] = nil end $.kept = 1",
    ]

    /// Tables, and values of each kind with which a metatable comes.
    @Test func nothingThatIsReachableCanBeChanged() throws {
        let constants = Set(["constants", "null"])
        let tables = LuaProgram.members.keys + ["waybill.words(\"t\", {a = \"b\"})"]
        let functions = LuaProgram.members.flatMap { table in table.value.map { "\(table.key).\($0)" } }
        let values = ["(\"x\")", "null", "waybill.number(\"0.5\")", "(1)", "true", "map"]
        let base = LuaProgram.globals.subtracting(constants)
        for place in Set(tables + functions + values + base).sorted() {
            for change in Self.changes {
                let body = change.replacing("$", with: place)
                #expect(throws: LuaFailure.self, "\(body)") { try Self.run(body) }
            }
        }
        // Those that are made for an event alone may be changed, and are made again.
        for place in ["event", "record", "constants"] {
            let text = "function map(event, record) if \(place).kept then error(\"kept\") end \(place).kept = 1 end"
            let program = try LuaProgram(Array(text.utf8))
            for _ in 0..<2 { _ = try program.map([:], record: [:]) }
        }
    }

    /// A global that a program makes, and those that it replaces, are of that event.
    @Test func aGlobalIsOfOneEvent() throws {
        for name in LuaProgram.globals.subtracting(["constants"]) {
            let text = "function map(event) if \(name) == 7 then error(\"kept\") end \(name) = 7 end"
            let program = try LuaProgram(Array(text.utf8))
            for _ in 0..<2 { _ = try program.map(.null, record: .null) }
        }
    }

    @Test(arguments: [
        "{}", "map", "null", "waybill.status", "print", "waybill.words(\"t\", {})", "event", "string.find",
        "waybill.number(\"0.5\")",
    ])
    func noTextHasAnAddress(_ value: String) throws {
        for text in ["tostring(\(value))", "string.format(\"%s\", \(value))", "(\"%-9s|%s\"):format(1, \(value))"] {
            #expect(try Self.run("return {{data = {text = \(text)}}}").contains("0x") == false)
        }
        for body in ["error(\(value))", "local x = \(value) .. {}", "local x = {} < \(value)", "return {\(value)}"] {
            do { _ = try Self.run(body) } catch { #expect(!"\(error)".contains("0x"), "\(error)") }
        }
    }

    private static func run(_ body: String) throws -> String {
        let text = "function map(event, record) \(body) end"
        let result = try LuaProgram(Array(text.utf8)).map([:], record: [:])
        return String(decoding: result.text, as: UTF8.self)
    }
}
