import Lua
import Model
import Testing

/// Rules of programs: numbers, null, tables, and the functions that are offered.
@Suite struct LuaProgramTests {
    @Test func integersStayAndOtherNumbersKeepTheirText() throws {
        let event = try json(
            #"{"id":820982911946154508,"low":-9223372036854775808,"price":199.00,"big":9223372036854775808,"e":1e3}"#)
        let data = try data(
            """
            {id = event.id, low = event.low, price = event.price, big = event.big, e = event.e,
             types = math.type(event.id) .. " " .. type(event.price), next = event.id + 1}
            """, event)
        #expect(
            data
                == (try json(
                    #"{"id":820982911946154508,"low":-9223372036854775808,"price":"199.00","big":"9223372036854775808","#
                        + #""e":"1e3","types":"integer string","next":820982911946154509}"#)))
    }

    @Test(arguments: [
        ("{payment = {total = 1 / 2}}", LuaFailure.Kind.inexact, "result[1].data.payment.total is a number"),
        ("{lineItems = {{price = 1.0}}}", .inexact, "result[1].data.lineItems[1].price is a number"),
        ("{total = event.price * 2}", .failed, "map.lua:2: attempt to perform arithmetic on a string value"),
        ("{total = tostring(1.5)}", .failed, "map.lua:2: a number with a fraction has no exact text"),
        ("{a = {[1] = 1, b = 2}}", .failed, "result[1].data.a is a table with both names and places"),
        ("{a = {[1] = 1, [3] = 2}}", .failed, "result[1].data.a is a list with gaps"),
        ("{a = {[1.5] = 1}}", .failed, "result[1].data.a is a table with a key"),
        ("{a = map}", .failed, "result[1].data.a is a function"),
        (#"{a = "\xff"}"#, .failed, "a of the result is not UTF-8"),
        ("{a = event.missing.member}", .failed, "map.lua:2: attempt to index a nil value (field 'missing')"),
        ("{a = event.nothing.member}", .failed, "map.lua:2: attempt to index a userdata value (field 'nothing')"),
        (#"{a = waybill.money("1.999", "EUR", "major")}"#, .failed, "map.lua:2: money: 1.999 has more decimal places"),
        (#"{a = waybill.split(nil, ",")}"#, .failed, "map.lua:2: split: takes a text"),
        (#"{a = assert(nil, "no order number")}"#, .failed, "map.lua:2: no order number"),
        ("{a = (function() for _ in ipairs(event.missing) do end end)()}", .failed, "map.lua:2: attempt to index"),
        (#"{a = error("stop")}"#, .failed, "map.lua:2: stop"),
        ("{a = error({})}", .failed, "error: it is not a text"),
    ])
    func aFaultNamesLineOrPath(_ data: String, _ kind: LuaFailure.Kind, _ message: String) throws {
        let event = try json(#"{"price":199.00,"nothing":null}"#)
        let failure = #expect(throws: LuaFailure.self) { try self.data(data, event) }
        #expect(failure?.kind == kind)
        #expect(failure?.message.hasPrefix(message) == true, "\(failure?.message ?? "")")
    }

    @Test func nullIsAConstantAndAnAbsentMemberIsNil() throws {
        let data = try data(
            """
            {null_is = event.nothing == null, absent_is = event.missing == nil, kind = type(null), copy = event.nothing,
             kept = waybill.drop_nulls({a = null, b = {null, 1, {c = null}}}), word = tostring(null)}
            """, try json(#"{"nothing":null}"#))
        #expect(
            data
                == (try json(
                    #"{"null_is":true,"absent_is":true,"kind":"null","copy":null,"kept":{"b":[1,{}]},"word":"null"}"#)))
    }

    @Test func theSchemaDecidesWhetherAnEmptyTableIsAnArray() throws {
        let data = try data(
            "{lineItems = {}, merchant = {}, payment = {summaryItems = {}, total = {}}, owns = {}, "
                + "fulfillments = {{lineItems = {}, recipient = {}}}}", .null)
        #expect(
            data
                == (try json(
                    #"{"lineItems":[],"merchant":{},"payment":{"summaryItems":[],"total":{}},"owns":[],"#
                        + #""fulfillments":[{"lineItems":[],"recipient":{}}]}"#)))
    }

    @Test(arguments: [
        ("load", "nil"), ("dofile", "nil"), ("pcall", "nil"), ("xpcall", "nil"), ("setmetatable", "nil"),
        ("getmetatable", "nil"), ("collectgarbage", "nil"), ("require", "nil"), ("os", "nil"), ("io", "nil"),
        ("debug", "nil"), ("coroutine", "nil"), ("package", "nil"), ("print", "nil"), ("rawset", "nil"),
        ("next", "nil"), ("_G", "nil"), ("math.random", "nil"), ("math.randomseed", "nil"), ("string.gsub", "nil"),
        ("string.gmatch", "nil"), ("string.dump", "nil"), ("string.pack", "nil"), ("string.find", "function"),
        ("string.replace", "function"), ("utf8.len", "function"), ("table.sort", "function"), ("ipairs", "function"),
        ("waybill.status.shopify", "function"), ("constants", "table"),
    ])
    func onlyWhatIsNeededIsOffered(_ name: String, _ kind: String) throws {
        #expect(try self.data("{kind = type(\(name))}", .null).object?["kind"]?.string == kind)
    }

    @Test func textsAreFoundPlainlyAndPatternsAreSmall() throws {
        let data = try data(
            #"""
            {found = ("a.b"):find("."), replaced = ("1.2.3"):replace(".", ",", 1),
             matched = ("GET /orders/77?x"):match("/(%d+)"), upper = ("ä"):upper(), format = ("%03d|%s"):format(7, "x")}
            """#, .null)
        #expect(
            data
                == (try json(
                    #"{"found":2,"replaced":"1,2.3","matched":"77","upper":"ä","format":"007|x"}"#)))
        #expect(throws: LuaFailure.self) { try self.data(#"{a = ("%5.2f"):format(1)}"#, .null) }
    }

    @Test func pairsGoInTheOrderOfTheKeys() throws {
        let event = try json(#"{"zebra":1,"apple":2,"mango":3,"Äpfel":4,"b":5,"aa":6}"#)
        let program = """
            function map(event)
                local names = {}
                for name in pairs(event) do names[#names + 1] = name end
                return {{data = {names = table.concat(names, " ")}}}
            end
            """
        let result = try LuaProgram(Array(program.utf8)).map(event, record: .null).value
        #expect(result.array?[0].object?["data"]?.object?["names"] == "aa apple b mango zebra Äpfel")
    }

    @Test func nothingLastsFromOneRunToTheNext() throws {
        let text = """
            count = (count or 0)
            local seen = {}
            function map(event)
                count = count + 1
                seen[#seen + 1] = event
                return {{data = {count = count, seen = #seen}}}
            end
            """
        let program = try LuaProgram(Array(text.utf8))
        for _ in 0..<3 {
            let result = try program.map(.null, record: .null).value
            #expect(result.array?[0].object?["data"] == ["count": 1, "seen": 1])
        }
        for change in ["string.find = nil", "waybill.time = nil", "table.insert(math, 1)", "string.x = 1"] {
            #expect(throws: LuaFailure.self) { try self.data("{a = (function() \(change) end)()}", .null) }
        }
    }

    @Test func constantsAndTheRecordArriveAndNothingIsAnEmptyList() throws {
        let text = "function map(event, record) if event then return {{id = constants.shop .. record.topic}} end end"
        let program = try LuaProgram(Array(text.utf8))
        let result = try program.map(true, record: ["topic": "t"], constants: ["shop": "s"])
        #expect(result.value == [["id": "st"]])
        #expect(try program.map(false, record: .null).value == [])
        #expect(result.steps > 0 && result.steps < 1000)
    }

    @Test(arguments: [
        ("", "map.lua: there is no function map"), ("function map(", "map.lua:1: <name> or '...' expected"),
        ("map = 5", "map.lua: there is no function map"), ("x = nil + 1", "map.lua:1: attempt to perform arithmetic"),
    ])
    func aTextThatIsNoProgramIsRefused(_ text: String, _ message: String) {
        let failure = #expect(throws: LuaFailure.self) { try LuaProgram(Array(text.utf8)) }
        #expect(failure?.message.hasPrefix(message) == true, "\(failure?.message ?? "")")
    }

    /// The data of the one change that a program returns.
    private func data(_ data: String, _ event: JSON) throws -> JSON {
        let text = "function map(event, record)\nreturn {{data = \(data)}} end"
        let result = try LuaProgram(Array(text.utf8)).map(event, record: .null)
        return result.value.array?.first?.object?["data"] ?? .null
    }

    private func json(_ text: String) throws -> JSON { try JSON(parsing: Array(text.utf8)) }
}
