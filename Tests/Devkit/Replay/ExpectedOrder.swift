import Model

/// An order by its identifier with the expected final document.
struct ExpectedOrder: Sendable {
    let identifier: String
    let document: JSONObject
}
