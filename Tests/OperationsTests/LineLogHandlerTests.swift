import Foundation
import Logging
import Synchronization
import Testing

@testable import Operations

@Suite struct LineLogHandlerTests {
    static let nasty = [
        "plain", "", "a \"quote\" and a \\", "two\nlines\r\nand\u{0}nul\u{1B}[31m\u{7F}", "tab\there",
        "ü 漢字 👩‍👩‍👧 e\u{301}",
        "\u{2028}\u{2029}\u{85}", "\u{1F}\u{8}\u{C}",
        "\u{9B}31m\u{FEFF}\u{AD}\u{E0041}\u{1D173}",
        "paid \u{202E}0001\u{202C} \u{2066}x\u{2069}\u{200F}", #"{"level":"critical"}"#,
    ]

    private static let forbidden: Set<Unicode.GeneralCategory> = [
        .control, .format, .lineSeparator, .paragraphSeparator,
    ]

    @Test(arguments: nasty)
    func aJSONLogEntryIsOneLineAndKeepsItsText(text: String) throws {
        let handler = LineLogHandler(label: "waybill-x", format: .json, level: .info) { _ in }
        let line = handler.line(time: "now", level: .warning, message: text, fields: [("a", text), (text + "k", "b")])
        #expect(line.hasSuffix("}\n"))
        #expect(!line.dropLast().unicodeScalars.contains { Self.forbidden.contains($0.properties.generalCategory) })
        let parsed = try JSONSerialization.jsonObject(with: Data(line.utf8))
        let object = try #require(parsed as? [String: String])
        #expect(
            object == [
                "time": "now", "level": "warning", "service": "waybill-x", "message": text, "a": text, text + "k": "b",
            ])
    }

    @Test(arguments: nasty)
    func aTextLineCannotBeForged(text: String) {
        let handler = LineLogHandler(label: "waybill-x", format: .text, level: .info) { _ in }
        let line = handler.line(time: "now", level: .warning, message: text, fields: [("a", text)])
        #expect(line.hasPrefix("now WARNING "))
        #expect(line.hasSuffix("\n"))
        #expect(!line.dropLast().unicodeScalars.contains { Self.forbidden.contains($0.properties.generalCategory) })
    }

    @Test func timesHaveTheirZone() {
        #expect(LineLogHandler.time(Date(timeIntervalSince1970: 1_767_323_045.5)) == "2026-01-02T03:04:05.500Z")
    }

    @Test func metadataOfTheCallWinsOverTheLoggersOwn() throws {
        let lines = Mutex<[String]>([])
        var handler = LineLogHandler(label: "x", format: .json, level: .info) { line in
            lines.withLock { $0.append(line) }
        }
        handler[metadataKey: "a"] = "1"
        #expect(handler[metadataKey: "a"] == "1")
        handler.log(
            event: LogEvent(
                level: .debug, message: "said", metadata: ["a": "2"], source: "test", file: #file, function: #function,
                line: #line))
        let line = try #require(lines.withLock { $0.first })
        #expect(line.hasSuffix(#""message":"said","a":"2"}"# + "\n"))
    }
}
