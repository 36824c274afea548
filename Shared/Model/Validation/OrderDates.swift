extension JSONObject {
    /// The order with all its moments in whole seconds, the fraction dropped.
    ///
    /// Publishers may send fractions, which RFC 3339 allows; none of Apple's orders has them and many date parsers
    /// refuse them, so order.json never has any. `updatedAt` is not changed: Waybill writes it without a fraction.
    /// Source: Wallet Orders §3 (conventions), §3.1, §3.11 to §3.15
    var inWholeSeconds: JSONObject {
        var order = self
        order.dropFractions(of: ["createdAt"])
        order.change("returnInfo") { $0.dropFractions(of: ["returnDeadline"]) }
        order.change("payment") { payment in
            payment.changeElements("transactions") { $0.dropFractions(of: ["createdAt"]) }
        }
        order.changeElements("fulfillments") {
            $0.dropFractions(of: ["deliveredAt", "estimatedDeliveryAt", "pickedUpAt", "pickupAt", "shippedAt"])
        }
        order.changeElements("returns") { $0.dropFractions(of: ["dropOffBy", "initiatedAt", "returnedAt"]) }
        return order
    }

    /// - Returns: whether there was a fraction, as below: most orders have none, and none of their values is copied.
    @discardableResult
    private mutating func dropFractions(of members: [String]) -> Bool {
        var isChanged = false
        for name in members {
            guard case .string(let text)? = self[name], let whole = RFC3339.withoutFraction(text) else { continue }
            self[name] = .string(whole)
            isChanged = true
        }
        return isChanged
    }

    private mutating func change(_ member: String, _ body: (inout JSONObject) -> Bool) {
        guard case .object(var object)? = self[member], body(&object) else { return }
        self[member] = .object(object)
    }

    @discardableResult
    private mutating func changeElements(_ member: String, _ body: (inout JSONObject) -> Bool) -> Bool {
        guard case .array(let elements)? = self[member] else { return false }
        var changed: [JSON]?
        for (index, element) in elements.enumerated() {
            guard case .object(var object) = element, body(&object) else { continue }
            if changed == nil { changed = elements }
            changed?[index] = .object(object)
        }
        guard let changed else { return false }
        self[member] = .array(changed)
        return true
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
