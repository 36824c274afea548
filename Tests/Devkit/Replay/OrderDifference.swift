import Model

/// Compares an order.json with the document that was published.
enum OrderDifference {
    /// - Returns: nil if they agree, else the first members that do not.
    static func between(_ order: JSON, expected: JSONObject) -> String? {
        let found = OrderFile.document(order)
        guard found != expected else { return nil }
        let names = Set(found.members.map(\.name)).union(expected.members.map(\.name)).sorted()
        let differing = names.filter { found[$0] != expected[$0] }.prefix(2)
        return differing.map { name in
            "\(name) is \(found[name]?.text.prefix(200) ?? "missing"), expected \(expected[name]?.text.prefix(200) ?? "none")"
        }.joined(separator: "; ")
    }

    /// Compares the members that Waybill sets itself with the order's expected identity.
    ///
    /// - Parameters:
    ///   - tokens: the tokens that the order may have.
    ///   - webServiceURL: nil if unknown; the member then only has to be present.
    /// - Returns: nil if all agree. Never contains a token: anyone with the token may fetch the order.
    static func ofIdentity(_ order: JSON, key: OrderKey, tokens: [String], webServiceURL: String?) -> String? {
        let members = order.object
        let expected = [
            ("orderIdentifier", key.order.rawValue), ("orderTypeIdentifier", key.orderType.rawValue),
            ("webServiceURL", webServiceURL ?? members?["webServiceURL"]?.string ?? "there"),
        ]
        for (name, value) in expected where members?[name]?.string != value {
            return "\(name) is \(members?[name]?.text.prefix(200) ?? "missing"), expected \(value)"
        }
        guard let found = members?["authenticationToken"]?.string else { return "authenticationToken is missing" }
        return tokens.contains(found) ? nil : "authenticationToken is not one that checkout derives"
    }

    /// Compares a device's final order with the gateway's: both must be the same version, equal in every member.
    static func ofDevice(_ order: JSON?, served: JSON?) -> String? {
        guard let order else { return "it has no version" }
        guard let served else { return "the gateway served none to compare with" }
        guard order != served else { return nil }
        let names = Set((order.object?.members ?? []).map(\.name)).union((served.object?.members ?? []).map(\.name))
        let differing = names.sorted().filter { order.object?[$0] != served.object?[$0] }
        return "it differs from what is served in \(differing.joined(separator: ", "))"
    }
}
