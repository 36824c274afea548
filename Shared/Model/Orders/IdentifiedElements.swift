/// The arrays of an order whose elements have identifiers, so that sources can write to one element and not to others.
///
/// Source: Wallet Orders §3.9, §3.12 to §3.14
enum IdentifiedElements {
    /// Returns the members that identify an element of an array; the first that the element has counts.
    private static func identifiers(ofArray name: String) -> [String] {
        switch name {
        case "fulfillments": ["fulfillmentIdentifier"]
        case "returns": ["returnIdentifier"]
        case "lineItems": ["sku", "gtin"]
        default: []
        }
    }

    /// Returns the elements of an array by their identifiers, in order.
    ///
    /// - Parameter name: the name of the member that holds the array.
    /// - Returns: nil if the value is not such an array, an element has no identifier, or two have the same one.
    static func of(_ value: JSON, named name: String) -> [(identifier: String, element: JSONObject)]? {
        guard case .array(let array) = value else { return nil }
        let members = self.identifiers(ofArray: name)
        guard !members.isEmpty else { return nil }
        var seen: Set<ByteText> = []
        var elements: [(identifier: String, element: JSONObject)] = []
        elements.reserveCapacity(array.count)
        for case let element in array {
            guard let object = element.object,
                let identifier = members.lazy.compactMap({ object[$0]?.string }).first,
                seen.insert(ByteText(identifier)).inserted
            else { return nil }
            elements.append((identifier, object))
        }
        return elements
    }

    /// Returns the members that an element lacks before an order can show it; none for a complete one.
    static func missing(in element: JSONObject, ofArray name: String) -> [String] {
        var required: [String] =
            switch name {
            case "fulfillments": ["fulfillmentType", "status"]
            case "returns": ["status"]
            case "lineItems": ["quantity", "title"]
            default: []
            }
        if name == "fulfillments", element["fulfillmentType"] == "pickup" { required.append("displayName") }
        return required.filter { element[$0] == nil }
    }
}
