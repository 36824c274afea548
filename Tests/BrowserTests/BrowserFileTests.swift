import Foundation
import Testing

@testable import Browser

/// The files embedded in the program, against those in the folder; the files themselves are tested in Chromium.
@Suite struct BrowserFileTests {
    private static let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "Shared/Browser/Files")

    @Test(arguments: ["waybill.mjs", "waybill.css", "polyfill.js"])
    func eachBrowserFileIsEmbeddedUnchanged(_ name: String) throws {
        let files = [BrowserFile.module, .stylesheet, .polyfill]
        let file = try #require(files.first { $0.path == "/applepay/\(name)" })
        #expect(Data(file.bytes) == (try Data(contentsOf: Self.folder.appending(path: name))))
    }

    @Test func theClassicScriptHasNoExportAndOneGlobal() {
        let text = String(decoding: BrowserFile.script.bytes, as: UTF8.self)
        #expect(!text.contains("export {"))
        #expect(!text.contains("import "))
        #expect(text.hasPrefix("(() => {\n\"use strict\";\n"))
        #expect(text.hasSuffix("})();\n"))
        #expect(text.ranges(of: "window.waybill =").count == 1)
        #expect(text.contains("applePay: {\n  isSupportedByDevice,"))
    }

    @Test func aClassicScriptIsMadeOfAModule() {
        let script = BrowserFile.classic(Array("const a = 1;\nconst b = { };\nexport { a, b };\n".utf8))
        #expect(
            String(decoding: script, as: UTF8.self) == """
                (() => {
                "use strict";
                const a = 1;
                const b = { };
                window.waybill = Object.assign(window.waybill || {}, { applePay: { a, b } });
                })();

                """)
    }

    @Test func customersAreNeverGivenThePolyfill() {
        #expect(!BrowserFile.all.contains(.polyfill))
    }
}
