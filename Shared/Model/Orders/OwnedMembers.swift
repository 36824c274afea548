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

/// The members that a source claims for itself alone: `payment`, `fulfillments.status`.
///
/// A path leads through members of objects and through all elements of an array.
public struct OwnedPaths: Hashable, Sendable {
    /// The paths, sorted and without duplicates.
    public let paths: [String]

    public init() { self.paths = [] }

    /// The most paths that a source may own.
    public static let limit = 64
    /// The longest path, in bytes.
    public static let lengthLimit = 200

    /// - Throws: `ChangeFault` with code `.invalidChange`.
    /// - Parameter path: the JSON path of the texts, for error messages.
    public init(_ texts: [String], path: String) throws(ChangeFault) {
        guard texts.count <= Self.limit else {
            throw ChangeFault(
                code: .invalidChange, reason: "\(path) has \(texts.count) names, it may have \(Self.limit)")
        }
        for text in texts where !Self.isPath(text) {
            throw ChangeFault(
                code: .invalidChange,
                reason: "\(path) has \"\(clipped(text))\", it must name members like \"payment\" or "
                    + "\"fulfillments.status\", of at most \(Self.lengthLimit) bytes")
        }
        self.paths = Set(texts.map(ByteText.init)).sorted().map(\.text)
    }

    private static func isPath(_ text: String) -> Bool {
        guard text.utf8.count <= Self.lengthLimit else { return false }
        return text.split(separator: ".", omittingEmptySubsequences: false).allSatisfy { name in
            !name.isEmpty && name.utf8.allSatisfy { $0 > 0x20 && $0 != 0x7F && $0 != UInt8(ascii: ",") }
        }
    }

    /// The owned paths as a tree, member by member.
    struct Claim {
        var isOwned = false
        var members: [ByteText: Claim] = [:]

        /// Returns true if a member is owned, or what contains it.
        func contains(_ place: [Violation.Step]) -> Bool {
            var claim = self
            for step in place {
                guard case .member(let name) = step, let inside = claim.members[ByteText(name)] else { return false }
                if inside.isOwned { return true }
                claim = inside
            }
            return false
        }
    }

    var claim: Claim {
        var claim = Claim()
        for path in self.paths { claim.add(path.split(separator: ".")[...]) }
        return claim
    }
}

extension OwnedPaths.Claim {
    fileprivate mutating func add(_ path: ArraySlice<Substring>) {
        guard let name = path.first else {
            self.isOwned = true
            return
        }
        self.members[ByteText(String(name)), default: .init()].add(path.dropFirst())
    }
}
