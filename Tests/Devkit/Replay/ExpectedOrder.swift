import Model

/// An order by its identifier and the document that must stand in the end.
struct ExpectedOrder: Sendable {
    let identifier: String
    let document: JSONObject
}
