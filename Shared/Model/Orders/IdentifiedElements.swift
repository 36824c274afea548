/// The arrays of an order whose elements have identifiers, so that sources can write to one element and not to others.
///
/// Source: Wallet Orders §3.9, §3.12 to §3.14
enum IdentifiedElements {
    static let arrays = ["fulfillments", "lineItems", "returns"]

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

    /// Returns the names that lead to a place, members and identifiers, as far as sources write there one by one.
    static func path(to place: [Violation.Step], in document: JSONObject) -> [String] {
        var path: [String] = []
        var value = JSON.object(document)
        for step in place {
            switch step {
            case .member(let name):
                path.append(name)
                value = value.object?[name] ?? .null
            case .element(let index):
                guard let elements = self.of(value, named: path.last ?? ""), index < elements.count
                else { return path }
                path.append(elements[index].identifier)
                value = .object(elements[index].element)
            }
        }
        return path
    }

    /// Returns the names that lead to a place; nil if an element on the way has no identifier.
    static func names(on place: [Violation.Step], in document: JSONObject) -> [String]? {
        let path = self.path(to: place, in: document)
        return path.count == place.count ? path : nil
    }

    /// Returns the members that an element lacks before an order can show it; none for a complete one.
    ///
    /// - Parameter name: one of `arrays`.
    static func missing(in element: JSONObject, ofArray name: String) -> [String] {
        let schema =
            switch name {
            case "fulfillments": element["fulfillmentType"] == "pickup" ? OrderSchema.pickup : OrderSchema.shipping
            case "returns": OrderSchema.return
            default: OrderSchema.lineItem
            }
        return schema.members.lazy.filter { $0.isRequired && element[$0.name] == nil }.map(\.name)
    }
}
