/// The members of an order that Waybill owns, removed from the data that a publisher sent.
///
/// A publisher may send these members (it often has a whole order.json at hand), but they must agree with what Waybill
/// will write; `updatedAt` is ignored and `authenticationToken` is taken. `"webServiceURL": null` is a request that
/// is honoured: see `OrderDocument.isStatic`.
/// Source: Design §3
struct OwnedMembers {
    /// The member that holds the token.
    static let tokenName = "authenticationToken"

    /// The token that was sent.
    private(set) var token: AuthenticationToken?
    private(set) var violations: [Violation] = []

    /// The result for a change that has no such members.
    static let none = OwnedMembers()

    private init() {}

    /// - Parameters:
    ///   - members: loses the members that Waybill owns, except a `webServiceURL` that makes the order static.
    ///   - isPatch: whether null means "remove", which is ignored: Waybill sets the member anyway.
    init(takenFrom members: inout JSONObject, key: OrderKey, rules: BrandRules, isPatch: Bool) {
        func take(_ name: String) -> JSON? {
            guard let value = members[name] else { return nil }
            members[name] = nil
            return value == .null && isPatch ? nil : value
        }
        _ = take("updatedAt")
        if let value = take("orderType"), value != "ecommerce" {
            self.refuse("orderType", value, mustBe: "ecommerce")
        }
        if let value = take("orderTypeIdentifier"), value != .string(key.orderType.rawValue) {
            self.refuse("orderTypeIdentifier", value, mustBe: "\(key.orderType)")
        }
        if let value = take("orderIdentifier"), value != .string(key.order.rawValue) {
            self.refuse("orderIdentifier", value, mustBe: "\(key.order)")
        }
        let isStatic = !isPatch && members["webServiceURL"] == .null
        if !isStatic, let value = take("webServiceURL"),
            value.string.map(Self.withoutSlash) != Self.withoutSlash(rules.webServiceURL)
        {
            self.refuse("webServiceURL", value, mustBe: rules.webServiceURL)
        }
        if let value = take(Self.tokenName) { self.read(token: value) }
    }

    private mutating func read(token value: JSON) {
        guard case .string(let text) = value else {
            self.violations.append(
                Violation(path: "$.authenticationToken", message: "must be a string, it is \(value.kind)"))
            return
        }
        do {
            self.token = try AuthenticationToken(text)
        } catch {
            self.violations.append(Violation(path: "$.authenticationToken", message: "is not usable: \(error)"))
        }
    }

    private mutating func refuse(_ name: String, _ value: JSON, mustBe expected: String) {
        let found = value.string.map { "\"\(clipped($0))\"" } ?? value.kind
        self.violations.append(
            Violation(path: "$.\(name)", message: "must be \"\(expected)\" or left out, it is \(found)"))
    }

    private static func withoutSlash(_ url: String) -> Substring {
        url.utf8.last == UInt8(ascii: "/") ? url.dropLast() : url[...]
    }
}
