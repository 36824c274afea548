/// The members that Waybill and the brand add to the document in order.json, sorted by name.
struct AddedMembers {
    struct Member {
        let name: String
        /// The value; nil if the member is left out.
        let value: JSON?
        /// True if the document's own member takes precedence.
        var isDefault = false
    }

    let members: [Member]

    /// - Parameter schemaVersion: the version for a document that does not ask for one.
    init(
        isStatic: Bool, schemaVersion: Int64, key: OrderKey, token: AuthenticationToken, modifiedEpochSeconds: Int64,
        rules: BrandRules
    ) {
        self.members = [
            Member(name: "authenticationToken", value: isStatic ? nil : .string(token.rawValue)),
            Member(
                name: "changeNotifications", value: rules.changeNotifications.map { .string($0.rawValue) },
                isDefault: true),
            Member(name: "merchant", value: rules.merchant.map { .object($0) }, isDefault: true),
            Member(name: "orderIdentifier", value: .string(key.order.rawValue)),
            Member(name: "orderType", value: "ecommerce"),
            Member(name: "orderTypeIdentifier", value: .string(key.orderType.rawValue)),
            Member(name: "returnInfo", value: rules.returnInfo.map { .object($0) }, isDefault: true),
            Member(name: "schemaVersion", value: .integer(schemaVersion), isDefault: true),
            Member(name: "updatedAt", value: .string(RFC3339.format(epochSeconds: modifiedEpochSeconds))),
            Member(name: "webServiceURL", value: isStatic ? nil : .string(rules.webServiceURL)),
        ]
    }
}
