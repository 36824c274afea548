import Lua
import Model
import TestKit
import Testing

/// Programs that want too much: each is refused soon and in little memory, and the next event is mapped.
@Suite(.serialized) struct LuaLimitTests {
    static let hostile: [(name: String, text: String)] = [
        ("endless loop", "while true do end"),
        ("endless loop of calls", "local function f() end while true do f() end"),
        ("recursion", "local function f() return 1 + f() end return f()"),
        ("tail recursion", "local function f() return f() end return f()"),
        ("memory of a table", "local t = {} while true do t[#t + 1] = {} end"),
        ("memory of a text", #"local s = "x" while true do s = s .. s end"#),
        ("memory at once", #"return ("x"):rep(1 << 40)"#),
        ("garbage", #"local s = ("x"):rep(1 << 20) while true do local t = s .. "y" end"#),
        ("swallowed errors", "while true do pcall(error) end"),
        ("finalizer", "setmetatable({}, {__gc = function() while true do end end})"),
        ("coroutine", "coroutine.wrap(function() while true do end end)()"),
        ("bytecode", #"load("\27Lua")()"#),
        ("deep result", "local t = {} for i = 1, 100 do t = {t} end return {t}"),
        ("circular result", "local t = {} t[1] = t t[2] = t return {t}"),
        ("large changes", #"local c = {} for i = 1, 16 do c[i] = {data = {a = ("x"):rep(1 << 20)}} end return c"#),
        ("keys", "local t = {} for i = 1, 9999 do t[i] = i end while true do for k in pairs(t) do break end end"),
        ("many results", "return table.unpack({}, 1, 1e7)"),
    ]

    @Test(arguments: hostile.map(\.name))
    func aHostileProgramIsRefusedAndTheNextEventIsMapped(_ name: String) throws {
        let body = try #require(Self.hostile.first { $0.name == name }?.text)
        let text = "function map(event) if event == 1 then return {{id = \"fine\"}} end \(body) end"
        let program = try LuaProgram(Array(text.utf8))
        for _ in 0..<3 {
            let began = ProcessorTime.now
            let failure = #expect(throws: LuaFailure.self) { try program.map(0, record: .null) }
            let duration = ProcessorTime.now - began
            let peak = program.peakBytes
            #expect(peak <= 16 << 20)
            #expect(duration < .milliseconds(100), "\(failure?.message ?? "")")
            #expect(try program.map(1, record: .null).value == [["id": "fine"]])
        }
    }

    @Test func bytecodeIsNotAProgram() {
        let failure = #expect(throws: LuaFailure.self) { try LuaProgram([0x1B] + Array("Lua".utf8)) }
        #expect(failure?.message.contains("binary chunk") == true)
    }

    @Test func aProgramThatLoopsWhileItIsLoadedIsRefused() {
        let failure = #expect(throws: LuaFailure.self) { try LuaProgram(Array("while true do end".utf8)) }
        #expect(failure?.kind == .limited)
    }

    @Test func aRunTakesAsManyStepsAsBefore() throws {
        let text = "function map(event) for i = 1, event do end return {} end"
        let program = try LuaProgram(Array(text.utf8))
        let steps = try (0..<20).map { _ in try program.map(100_000, record: .null).steps }
        #expect((steps.max() ?? 0) - (steps.min() ?? 0) < 1000, "garbage that is collected meanwhile")
    }
}
