import Foundation

/// The table of configuration keys in `Shared/Operations/README.md`, with the default of each.
public struct ConfigurationTable: Sendable {
    /// Keys without an entry have no default.
    private let defaults: [String: String]

    public init() throws {
        let document = try String(
            contentsOf: Repository.root.appending(path: "Shared/Operations/README.md"), encoding: .utf8)
        var defaults: [String: String] = [:]
        for row in document.split(separator: "\n") where row.hasPrefix("| `WAYBILL_") {
            let cells = row.split(separator: "|").map { $0.drop { $0 == " " } }
            // A row has one or more keys, and as many defaults in code marks; words or a placeholder instead mean that
            // there is none.
            guard cells.count > 1, cells[1].hasPrefix("`"), !cells[1].hasPrefix("`<") else { continue }
            let values = cells[1].matches(of: /`([^`]+)`/).map { String($0.output.1) }
            for (key, value) in zip(cells[0].matches(of: /`([^`]+)`/), values) {
                defaults[String(key.output.1)] = value
            }
        }
        self.defaults = defaults
    }

    /// Returns a sentence for each key whose default differs from the table's.
    ///
    /// - Parameter effective: keys that were not set, with the values as `--check-config` shows them.
    public func differences(from effective: [(key: String, value: String)]) -> [String] {
        effective.filter { $0.value != "(redacted)" }.compactMap { key, value in
            let documented = self.defaults[key] ?? "(none)"
            return value == documented ? nil : "\(key) is \(value), the table says \(documented)"
        }
    }
}
