import Model

/// Compares an order.json with the document that was published.
enum OrderDifference {
    /// - Returns: nil when they agree, else the first members that do not.
    static func between(_ order: JSON, expected: JSONObject) -> String? {
        let found = OrderFile.document(order)
        guard found != expected else { return nil }
        let names = Set(found.members.map(\.name)).union(expected.members.map(\.name)).sorted()
        let differing = names.filter { found[$0] != expected[$0] }.prefix(2)
        return differing.map { name in
            "\(name) is \(found[name]?.text.prefix(200) ?? "missing"), expected \(expected[name]?.text.prefix(200) ?? "none")"
        }.joined(separator: "; ")
    }
}
