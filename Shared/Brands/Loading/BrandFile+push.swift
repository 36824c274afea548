import Model

/// The members of `brand.json` about pushing.
extension BrandFile {
    /// The brand's authentication to APNs. Source: Wallet Orders §4.4
    enum Push: Hashable {
        case certificate
        case token(key: String, keyIdentifier: String, teamIdentifier: String)
    }

    /// Reads the brand's authentication; leaves the rest.
    static func push(_ members: inout BrandMembers) throws(BrandError) -> Push {
        switch try members.string("authentication") {
        case "certificate": .certificate
        case "token":
            .token(
                key: try members.file("key"), keyIdentifier: try members.appleIdentifier("keyIdentifier"),
                teamIdentifier: try members.appleIdentifier("teamIdentifier"))
        case let other:
            throw BrandError(
                .configuration, "$.push.authentication: \"\(other)\" must be \"certificate\" or \"token\"")
        }
    }

    /// Reads the options of the brand's notifications; leaves the rest.
    static func pushOptions(_ members: inout BrandMembers) throws(BrandError) -> PushOptions {
        var options = PushOptions()
        if let kind: PushOptions.Kind = try members.choice("type") { options.kind = kind }
        if let number = try members.integer("priority") {
            guard let priority = PushOptions.Priority(rawValue: number) else {
                throw BrandError(.configuration, "$.push.priority: \(number) must be 1, 5 or 10")
            }
            options.priority = priority
        }
        guard options.kind != .background || options.priority != .immediate else {
            throw BrandError(
                .configuration,
                "$.push.priority: 10 is an error with background notifications: give 5, or $.push.type \"alert\"")
        }
        if let seconds = try members.integer("expirationSeconds") {
            guard PushOptions.expirationRange.contains(seconds) else {
                throw BrandError(
                    .configuration,
                    "$.push.expirationSeconds: \(seconds) must be from 0 to \(PushOptions.expirationRange.upperBound)")
            }
            options.expirationSeconds = seconds
        }
        options.collapseIdentifier = try Self.collapseIdentifier(&members)
        return options
    }

    /// Reads a text that becomes a header's value, so it has only characters that are allowed in one and is not trimmed
    /// at an end.
    ///
    /// Source: RFC 9110 §5.5; Wallet Orders §4.3
    private static func collapseIdentifier(_ members: inout BrandMembers) throws(BrandError) -> String? {
        guard let text = try members.optionalString("collapseIdentifier") else { return nil }
        guard text.utf8.count <= PushOptions.collapseIdentifierLimit else {
            throw BrandError(
                .configuration,
                "$.push.collapseIdentifier: has \(text.utf8.count) bytes, at most "
                    + "\(PushOptions.collapseIdentifierLimit) are allowed")
        }
        guard text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            throw BrandError(
                .configuration, "$.push.collapseIdentifier: may have visible ASCII characters only, no spaces")
        }
        return text
    }
}
