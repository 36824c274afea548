import Testing

/// The variables `WAYBILL_…_AT` let tests kill or stall a service; only the debug build may read them.
@Suite struct HookTests {
    @Test func onlyTheDebugBuildHasHooks() throws {
        let files = try TidyTests.sources(["Services", "Shared"])
        for file in files {
            for line in Self.shippedHooks(file.lines) { Issue.record("\(file.path):\(line): a hook outside #if DEBUG") }
        }
        let hooks = files.flatMap(\.lines).filter { $0.contains(Self.hook) }
        #expect(hooks.count >= 2, "the packager's crash and stall")
    }

    @Test func aHookOfTheReleaseBuildIsNoticed() {
        let planted = [
            "#if DEBUG", "    // WAYBILL_NEVER_AT", "    #if os(Linux)", "let a = \"WAYBILL_CRASH_AT\"", "    #endif",
            "#else", "let b = \"WAYBILL_CRASH_AT\"", "#endif", "let c = \"WAYBILL_STALL_AT\"",
        ]
        #expect(Self.shippedHooks(planted.map { Substring($0) }) == [7, 9])
    }

    private static var hook: Regex<Substring> { /"WAYBILL_[A-Z_]+_AT"/ }

    /// Returns the numbers of the lines that are compiled without DEBUG and name a hook.
    private static func shippedHooks(_ lines: [Substring]) -> [Int] {
        var areForDebug: [Bool] = []
        var found: [Int] = []
        for (index, line) in lines.enumerated() {
            let words = line.split(separator: " ")
            switch words.first ?? "" {
            case "#if": areForDebug.append(words.dropFirst() == ["DEBUG"])
            case "#else", "#elseif": areForDebug[areForDebug.count - 1] = false
            case "#endif": areForDebug.removeLast()
            default: if !areForDebug.contains(true), line.contains(self.hook) { found.append(index + 1) }
            }
        }
        return found
    }
}
