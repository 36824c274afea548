import Foundation

/// The table of configuration keys in `Shared/Operations/README.md`, with the default of each and the services that
/// use it.
public struct ConfigurationTable: Sendable {
    /// Keys without an entry have no default.
    private let defaults: [String: String]
    /// The services of each key, as the last column has them.
    private let users: [String: [String]]

    public init() throws {
        let document = try String(
            contentsOf: Repository.root.appending(path: "Shared/Operations/README.md"), encoding: .utf8)
        var defaults: [String: String] = [:]
        var users: [String: [String]] = [:]
        for row in document.split(separator: "\n") where row.hasPrefix("| `WAYBILL_") {
            let cells = row.split(separator: "|").map { $0.drop { $0 == " " } }
            let keys = cells[0].matches(of: /`(WAYBILL_[A-Z_]+)`/).map { String($0.output.1) }
            let names = (cells.last ?? "").split { $0 == "," || $0 == " " }.map(String.init)
            for key in keys { users[key] = names }
            // A row has one or more keys, and as many defaults in code marks; words or a placeholder instead mean that
            // there is none.
            guard cells.count > 1, cells[1].hasPrefix("`"), !cells[1].hasPrefix("`<") else { continue }
            let values = cells[1].matches(of: /`([^`]+)`/).map { String($0.output.1) }
            for (key, value) in zip(cells[0].matches(of: /`([^`]+)`/), values) {
                defaults[String(key.output.1)] = value
            }
        }
        self.defaults = defaults
        self.users = users
    }

    /// Returns a sentence for each key that a service reads besides the common ones and the table does not say so, or
    /// the other way round.
    ///
    /// - Parameters:
    ///   - read: the keys that all its settings read.
    ///   - common: those that the common ones read: that a service reads them does not mean that it uses them.
    public func differences(
        ofUseBy service: String, read: some Sequence<String>, common: some Sequence<String>
    ) -> [String] {
        // The one that is read by none names the file with all others.
        let (read, common) = (Set(read), Set(common).union(["WAYBILL_CONFIG"]))
        return self.users.keys.sorted().compactMap { key in
            guard !common.contains(key), let names = self.users[key] else { return nil }
            if names.contains(service) == read.contains(key) { return nil }
            let verb = read.contains(key) ? "read" : "not read"
            return "\(key) is \(verb) by \(service), the table says \(names.joined(separator: ", "))"
        }
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
