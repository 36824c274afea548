import Model

/// An order.json converted to an order document: the members that Waybill owns are removed.
enum OrderFile {
    /// The members that Waybill sets. Source: Design §3
    private static let owned = [
        "schemaVersion", "orderType", "orderTypeIdentifier", "orderIdentifier", "webServiceURL", "updatedAt",
    ]

    /// Returns an order.json without the members that Waybill sets; empty if it is not an object.
    static func document(_ order: JSON) -> JSONObject {
        (try? Self.document(from: order, keepsToken: false))?.document.object ?? JSONObject()
    }

    /// - Parameters:
    ///   - order: an order.json or a document.
    ///   - keepsToken: false to remove `authenticationToken` too, so that Waybill derives it.
    /// - Returns: the document, and the identifier found in it.
    static func document(
        from order: JSON, keepsToken: Bool = true
    ) throws(ToolError) -> (document: JSON, orderIdentifier: String?) {
        guard var members = order.object else {
            throw ToolError(.input, "reading an order document: it is \(order.kind) instead of an object")
        }
        let identifier = members["orderIdentifier"]?.string
        let isStatic = members["webServiceURL"] == .null
        for name in Self.owned { members[name] = nil }
        if isStatic { members["webServiceURL"] = .null }
        if !keepsToken { members["authenticationToken"] = nil }
        return (.object(members), identifier)
    }
}
