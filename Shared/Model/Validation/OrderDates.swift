extension JSONObject {
    /// The order with all its moments in whole seconds, the fraction dropped.
    ///
    /// Publishers may send fractions, which RFC 3339 allows; none of Apple's orders has them and many date parsers
    /// refuse them, so order.json never has any.
    /// Source: Wallet Orders §3 (conventions), §3.1, §3.11 to §3.15
    var inWholeSeconds: JSONObject {
        var order = self
        order.dropFractions(of: .moments)
        return order
    }

    /// - Returns: true if there was a fraction, as below: most orders have none, and none of their values is copied.
    @discardableResult
    mutating func dropFractions(of members: TextMembers) -> Bool {
        var isChanged = false
        for (name, _, _) in members.texts {
            guard case .string(let text)? = self[name], let whole = RFC3339.withoutFraction(text) else { continue }
            self[name] = .string(whole)
            isChanged = true
        }
        for (name, _, inner) in members.parts {
            guard let changed = self[name]?.withoutFractions(of: inner) else { continue }
            self[name] = changed
            isChanged = true
        }
        return isChanged
    }
}

extension JSON {
    /// - Returns: nil if nothing changes.
    fileprivate func withoutFractions(of members: TextMembers) -> JSON? {
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
