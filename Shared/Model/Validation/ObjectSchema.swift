/// The members that an object may have. A class, so that passing it on takes one reference instead of three.
final class ObjectSchema: Sendable {
    /// The title with its article, for messages.
    let title: String
    /// Sorted by name, as the members of a `JSONObject` are, so that one pass over both checks an object.
    let members: [MemberSchema]
    /// The members that require another member.
    let needs: [(member: String, needed: String)]

    init(_ title: String, needs: [(member: String, needed: String)] = [], _ members: MemberSchema...) {
        self.title = title
        self.members = members.sorted { $0.name < $1.name }
        self.needs = needs
    }
}

/// One member of an object.
struct MemberSchema: Sendable {
    let name: String
    let isRequired: Bool
    let shape: Shape

    static func required(_ name: String, _ shape: Shape) -> MemberSchema {
        MemberSchema(name: name, isRequired: true, shape: shape)
    }

    static func optional(_ name: String, _ shape: Shape) -> MemberSchema {
        MemberSchema(name: name, isRequired: false, shape: shape)
    }
}

/// The required shape of a value.
enum Shape: Sendable {
    case text(TextFormat)
    case choice([String])
    case number(ClosedRange<Double>)
    case wholeNumber(ClosedRange<Double>)
    case boolean
    case object(ObjectSchema)
    indirect case array(of: Shape)
    /// An object whose currency must be the order's.
    case amount
    /// An object whose `fulfillmentType` decides which members it may have.
    case fulfillment
}
