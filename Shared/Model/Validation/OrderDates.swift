/// The members of an object that are moments, and those that contain such members: derived from its schema, so that a
/// member that is added there is one of them.
final class DateTimeMembers: Sendable {
    /// All moments of order.json but `updatedAt`, which Waybill writes without a fraction.
    static let order = DateTimeMembers(of: [OrderSchema.order], except: ["updatedAt"])

    let names: [String]
    let parts: [(name: String, members: DateTimeMembers)]

    /// - Parameter schemas: those that the object may have.
    init(of schemas: [ObjectSchema], except omitted: Set<String> = []) {
        var names: Set<String> = []
        var parts: [String: [ObjectSchema]] = [:]
        for member in schemas.flatMap(\.members) where !omitted.contains(member.name) {
            if case .text(.dateTime) = member.shape { names.insert(member.name) }
            parts[member.name, default: []] += member.shape.objects
        }
        self.names = names.sorted()
        self.parts = parts.map { (name: $0, members: DateTimeMembers(of: $1)) }
            .filter { !$0.members.names.isEmpty || !$0.members.parts.isEmpty }
            .sorted { $0.name < $1.name }
    }
}

extension Shape {
    /// The schemas of the objects that the value is or contains directly.
    fileprivate var objects: [ObjectSchema] {
        switch self {
        case .object(let schema): [schema]
        case .array(let shape): shape.objects
        case .fulfillment: [OrderSchema.shipping, OrderSchema.pickup]
        case .text, .choice, .number, .wholeNumber, .boolean, .amount: []
        }
    }
}

extension JSONObject {
    /// The order with all its moments in whole seconds, the fraction dropped.
    ///
    /// Publishers may send fractions, which RFC 3339 allows; none of Apple's orders has them and many date parsers
    /// refuse them, so order.json never has any.
    /// Source: Wallet Orders §3 (conventions), §3.1, §3.11 to §3.15
    var inWholeSeconds: JSONObject {
        var order = self
        order.dropFractions(of: .order)
        return order
    }

    /// - Returns: true if there was a fraction, as below: most orders have none, and none of their values is copied.
    @discardableResult
    mutating func dropFractions(of members: DateTimeMembers) -> Bool {
        var isChanged = false
        for name in members.names {
            guard case .string(let text)? = self[name], let whole = RFC3339.withoutFraction(text) else { continue }
            self[name] = .string(whole)
            isChanged = true
        }
        for (name, inner) in members.parts {
            guard let changed = self[name]?.withoutFractions(of: inner) else { continue }
            self[name] = changed
            isChanged = true
        }
        return isChanged
    }
}

extension JSON {
    /// - Returns: nil if nothing changes.
    fileprivate func withoutFractions(of members: DateTimeMembers) -> JSON? {
        switch self {
        case .object(var object):
            return object.dropFractions(of: members) ? .object(object) : nil
        case .array(let elements):
            var changed: [JSON]?
            for (index, element) in elements.enumerated() {
                guard let new = element.withoutFractions(of: members) else { continue }
                if changed == nil { changed = elements }
                changed?[index] = new
            }
            return changed.map { .array($0) }
        case .null, .bool, .number, .string: return nil
        }
    }
}

extension RFC3339 {
    /// - Returns: nil if the text is not a date-time or has no fraction.
    static func withoutFraction(_ text: String) -> String? {
        guard let point = text.utf8.firstIndex(of: UInt8(ascii: ".")), self.instant(text) != nil else { return nil }
        let zone = text[point...].dropFirst().drop { $0.isNumber }
        return String(text[..<point]) + zone
    }
}
