import Model

/// The few rules of order.json that decide whether Wallet takes a package at all. The whole schema is Model's affair.
///
/// Source: Wallet Orders §2.5, §3.1, §3.20
enum OrderMembers {
    /// Source: Wallet Orders §3.1, the members marked R
    private static let required = [
        "schemaVersion", "orderType", "orderTypeIdentifier", "orderIdentifier", "createdAt", "updatedAt", "status",
        "merchant", "orderManagementURL",
    ]

    /// What Wallet would refuse, one sentence each.
    static func violations(in order: JSON, certificateOrderType: String?, files: Set<String>) -> [String] {
        guard let members = order.object else { return ["order.json is not a JSON object."] }
        var found = Self.required.filter { members[$0] == nil }.map { "order.json has no \($0)." }
        if ![1, 2].contains(members["schemaVersion"]?.integer) {
            found.append("order.json's schemaVersion is neither 1 nor 2.")
        }
        if let type = certificateOrderType, members["orderTypeIdentifier"]?.string != type {
            found.append("order.json's orderTypeIdentifier is not the certificate's, \(quoted(type)).")
        }
        if let service = members["webServiceURL"] {
            if service.string?.hasPrefix("https://") != true {
                found.append("order.json's webServiceURL does not start with https://.")
            }
            if (members["authenticationToken"]?.string?.count ?? 0) < 16 {
                found.append("order.json's authenticationToken is missing or shorter than 16 characters.")
            }
        }
        let times = ["createdAt", "updatedAt"].map { name in
            members[name]?.string.flatMap { RFC3339.parse($0) }
        }
        if let created = times[0], let updated = times[1] {
            if updated < created { found.append("order.json's updatedAt is before createdAt.") }
        } else if members["createdAt"] != nil, members["updatedAt"] != nil {
            found.append("order.json's createdAt or updatedAt is not an RFC 3339 date-time.")
        }
        for name in Self.files(named: order).sorted() where !files.contains(name) {
            found.append("order.json names the file \(quoted(name)), which is not in the package.")
        }
        return found
    }

    /// Members whose value is the name of a file of the package, wherever they stand. Source: Wallet Orders §3
    private static let fileMembers: Set<String> = [
        "logo", "image", "receipt", "returnLabel", "trackingLogoNameLightColorScheme",
        "trackingLogoNameDarkColorScheme",
    ]

    private static func files(named value: JSON) -> Set<String> {
        switch value {
        case .array(let elements): return elements.reduce(into: []) { $0.formUnion(Self.files(named: $1)) }
        case .object(let object):
            return object.members.reduce(into: []) { names, member in
                if Self.fileMembers.contains(member.name), let name = member.value.string {
                    names.insert(name)
                } else {
                    names.formUnion(Self.files(named: member.value))
                }
            }
        case .null, .bool, .number, .string: return []
        }
    }
}
