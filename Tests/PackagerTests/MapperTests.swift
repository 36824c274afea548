import Foundation
import Kafka
import Lua
import Model
import Sandbox
import TestKit
import TestTraits
import Testing

@testable import Packager

/// Records in mapper processes: those of the packager, and those of `SandboxSubject`, which does what a value says.
@Suite(.server) struct MapperTests {
    private static func record(_ value: String, topic: String = "events") -> KafkaRecord {
        KafkaRecord(
            topic: topic, partition: 0, offset: 7, timestampMilliseconds: 1_767_225_600_000, key: Array("k".utf8),
            value: Array(value.utf8))
    }

    private static var hostile: Sandbox {
        var sandbox = Sandbox.mapper(
            .full,
            path: Program.built("SandboxSubject"))
        sandbox.time = .seconds(1)
        return sandbox
    }

    private static func source(_ program: String = "function map(e) end", _ extra: String = "") throws -> Source {
        let fixture = try SourceFixture()
        try fixture.write("s", topics: ["events"], extra: extra, program)
        return try Source.read(folder: "\(fixture.path)/s", name: "s")
    }

    /// Maps records; all of them, however many are given at once.
    private static func map(
        _ records: [KafkaRecord], _ source: Source, _ sandbox: Sandbox
    ) async throws -> [SourceMapping] {
        let mapper = Mapper(sandbox, count: 1)
        try await mapper.start()
        let maps = SourceMapper(mapper: mapper, topic: "changes")
        var found: [SourceMapping] = []
        while found.count < records.count {
            let chunk = Array(records[found.count...].prefix(64))
            let mapped = await maps.map(chunk, source, nowEpochSeconds: 1_767_225_600)
            if mapped.isEmpty { throw SourceError("nothing was mapped") }
            for result in mapped {
                guard case .mapped(let mapping, _) = result else { throw SourceError("\(result)") }
                found.append(mapping)
            }
        }
        await mapper.close()
        return found
    }

    @Test(.timeLimit(.minutes(2)))
    func aRecordThatEndsItsProcessIsADeadLetterAndTheOthersAreMapped() async throws {
        let ends = ["trap", "memory", "open", "fork"]
        let records = (0..<1000).map { number in
            let isEnd = number % 10 == 9
            let task = isEnd ? ends[number / 10 % ends.count] : #"[{"order": "o\#(number)", "data": {}}]"#
            return Self.record("<<\(task)>>")
        }
        let mapped = try await Self.map(records, try Self.source(), Self.hostile)
        var codes: [String: Int] = [:]
        for (number, mapping) in mapped.enumerated() {
            if let fault = mapping.fault { codes[fault.code.rawValue, default: 0] += 1 }
            #expect((mapping.fault == nil) == (number % 10 != 9), "\(number): \(mapping.outcome)")
            if number % 10 != 9 {
                let subject = mapping.events.first?.object?["subject"]?.string
                #expect(subject == "order.com.example.shop/o\(number)")
            }
        }
        #expect(codes == ["map-crashed": 75, "map-limit": 25])
    }

    @Test func aTakenOverProcessSpeaksForItsOwnSourceOnly() async throws {
        let lies = [
            #"[{"order": "order.com.example.other/1", "data": {}}]"#,
            #"[{"order": "1", "brand": "other", "subject": "order.com.example.other/1", "data": {}}]"#,
            #"[{"order": "1", "source": "/other", "data": {}}]"#,
            #"[{"order": "1", "source": "/sother", "data": {}}]"#,
            #"[{"order": "1", "type": "waybill.order.forgotten.by.all", "data": {}}]"#,
            #"[{"order": "1", "data": {"webServiceURL": "https://other.example"}}]"#, "[not JSON",
            "[" + (0..<17).map { #"{"order": "\#($0)", "data": {}}"# }.joined(separator: ",") + "]", "garbage",
        ]
        let mapped = try await Self.map(lies.map { Self.record("<<\($0)>>") }, try Self.source(), Self.hostile)
        for (lie, mapping) in zip(lies, mapped) { #expect(mapping.fault != nil, "\(lie): \(mapping.events)") }
        #expect(mapped.last?.fault?.code == .mapCrashed)
    }

    @Test func filesOfZonesAreAskedFor() async throws {
        let program = """
            function map(e)
                return {{order = "1", data = {createdAt = waybill.time(e.time, "Europe/Berlin")}}}
            end
            """
        let mapped = try await Self.map(
            [Self.record(#"{"time": "2025-07-01T12:00:00"}"#), Self.record(#"{"time": "2026-01-01T00:00:00"}"#)],
            try Self.source(program), SourceFixture.sandbox)
        let times = mapped.map { $0.events.first?.object?["data"]?.object?["createdAt"] }
        #expect(times == ["2025-07-01T10:00:00Z", "2025-12-31T23:00:00Z"])
    }

    @Test func aRecordIsBounded() async throws {
        let source = try Self.source("function map(e) local t = {} while true do t[#t + 1] = {} end end")
        let mapped = try await Self.map([Self.record("{}")], source, SourceFixture.sandbox)
        #expect(mapped[0].fault?.code == .mapLimit)
        let tight = try Self.source("function map(e) end", #""limits": {"bytes": 1024}"#)
        let long = try await Self.map(
            [Self.record("\"" + String(repeating: "x", count: 1023) + "\"")], tight, SourceFixture.sandbox)
        #expect(long[0].fault?.reason == "the value has 1025 bytes, an event has at most 1024")
    }

    @Test func workThatNoStepSeesIsADeadLetter() async throws {
        for body in [
            #"string.rep("", math.maxinteger)"#, #"local s = ("a"):rep(255) .. "b" while true do s:match(".-.-c") end"#,
            #"local a, b = ("x"):rep(1 << 20), ("x"):rep(1 << 20) while true do if a ~= b then end end"#,
            "local t = {} for i = 1, 20000 do t[i] = -i end while true do table.sort(t) end",
            "local t = {} for i = 1, 1e9 do table.insert(t, 1, i) end",
            #"local s = ("a"):rep(1 << 20) while true do s:find("b") end"#,
            #"local s = (" "):rep(1 << 20) while true do tonumber(s) end"#,
            "local function f(...) return f(1, ...) end f()",
        ] {
            let source = try Self.source("function map(e) if e then \(body) end end")
            let sandbox = Sandbox.mapper(.full, path: SourceFixture.program)
            let mapped = try await Self.map([Self.record("true"), Self.record("false")], source, sandbox)
            #expect(mapped[0].fault?.code == .mapLimit, "\(body): \(mapped[0].outcome)")
            #expect(mapped[1].isIgnored, "\(body): \(mapped[1].outcome)")
        }
    }

    /// Every function that is offered, with arguments by which it might work for ever.
    @Test(.timeLimit(.minutes(2))) func aFunctionEndsOrIsEndedWhateverItsArguments() async throws {
        let program = """
            local functions = {\(Self.functions.joined(separator: ", "))}
            function map(event)
                local call = functions[event[1]]
                local values = {0, "", math.maxinteger, -1, ("ab"):rep(1 << 15), call}
                local first, second = values[event[2]], values[event[3]]
                if event[4] == 1 then call(first) elseif event[4] == 2 then call(first, second) end
                call(first, second, second)
            end
            """
        let records = Self.functions.indices.flatMap { function in
            (0..<108).map { Self.record("[\(function + 1), \($0 / 18 + 1), \($0 / 3 % 6 + 1), \($0 % 3 + 1)]") }
        }
        let sandbox = Sandbox.mapper(.full, path: SourceFixture.program)
        let mapped = try await Self.map(records, try Self.source(program), sandbox)
        for (record, mapping) in zip(records, mapped) {
            let value = String(decoding: record.value ?? [], as: UTF8.self)
            let isEnded = [nil, .mapFailed, .mapLimit, .mapUnknownAlias].contains(mapping.fault?.code)
            #expect(isEnded, "\(value): \(mapping.outcome)")
        }
    }

    private static let functions =
        LuaProgram.members.flatMap { table in
            table.value.filter { !["huge", "maxinteger", "mininteger", "status"].contains($0) }.map {
                "\(table.key).\($0)"
            }
        }.sorted() + [
            "assert", "error", "ipairs", "pairs", "rawequal", "rawlen", "select", "tonumber", "tostring", "type",
        ]

    @Test func aTextThatHangsIsRefusedWhereItIsLoaded() throws {
        var sandbox = SourceFixture.sandbox
        sandbox.time = .milliseconds(200)
        for text in [
            "while true do end", #"string.rep("", math.maxinteger)"#, "local t = {} for i = 1, 1e9 do t = {t} end",
        ] {
            #expect(throws: SourceError.self) { try MapperProgram(Array(text.utf8)).check(in: sandbox) }
        }
        try MapperProgram(Array("function map(e) end".utf8)).check(in: SourceFixture.sandbox)
    }

    @Test func aRefusalOfTheSystemNamesTheConsent() {
        let error = MapperUnavailable("the system refuses PR_SET_SECCOMP: Invalid argument")
        #expect("\(error)".hasSuffix("by WAYBILL_SANDBOX=limits"))
    }
}
