/// A variable of the environment that looks like a configuration key but is not one.
struct UnknownVariable: Hashable, Sendable, CustomStringConvertible {
    let name: String
    /// The key that was most likely meant.
    let nearest: SettingKey?

    var description: String {
        "\(self.name) is not a known key and is ignored"
            + (self.nearest.map { ": did you mean \($0.rawValue)?" } ?? "")
    }

    /// Names that a shell, the tests or Kubernetes set: Kubernetes makes variables of the names of services.
    #if DEBUG
        private static let others = ["WAYBILL_TEST_", "WAYBILL_CRASH_AT", "WAYBILL_STALL_AT", "WAYBILL_TRAP_AT"]
    #else
        private static let others = ["WAYBILL_TEST_"]
    #endif
    private static let links = ["_SERVICE_HOST", "_SERVICE_PORT", "_PORT"]

    /// Returns at most 20 of them, sorted by name.
    static func all(in environment: [String: String]) -> [UnknownVariable] {
        let names = environment.keys.filter { name in
            name.hasPrefix("WAYBILL_") && name != SettingKey.fileVariable && SettingKey(rawValue: name) == nil
                && !Self.others.contains { name.hasPrefix($0) } && !Self.links.contains { name.hasSuffix($0) }
                && !name.contains("_PORT_") && !name.contains("_SERVICE_PORT_")
        }
        return names.sorted().prefix(20).map { UnknownVariable(name: $0, nearest: Self.nearest(to: $0)) }
    }

    /// Returns the key with the smallest edit distance, at most a third of the name.
    private static func nearest(to name: String) -> SettingKey? {
        let name = name.prefix(100).dropFirst("WAYBILL_".count)
        let distances = SettingKey.allCases.map {
            (key: $0, edits: Self.edits(Array(name.utf8), Array($0.rawValue.utf8.dropFirst("WAYBILL_".count))))
        }
        return distances.min { $0.edits < $1.edits }.flatMap { $0.edits <= max(2, name.count / 3) ? $0.key : nil }
    }

    /// Returns the edit distance: the number of letters to insert, delete or replace. Source: Wagner and Fischer, The
    /// String-to-String Correction Problem
    private static func edits(_ left: [UInt8], _ right: [UInt8]) -> Int {
        var row = Array(0...right.count)
        for (index, letter) in left.enumerated() {
            var diagonal = row[0]
            row[0] = index + 1
            for (column, other) in right.enumerated() {
                let replaced = diagonal + (letter == other ? 0 : 1)
                diagonal = row[column + 1]
                row[column + 1] = min(replaced, diagonal + 1, row[column] + 1)
            }
        }
        return row[right.count]
    }
}
