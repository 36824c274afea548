import Model

/// The files that an order names.
enum OrderFiles {
    /// Calls `body` for each name in an order, in a fixed order of places.
    static func forEach(in order: JSONObject, _ body: (_ name: String, _ place: FilePlace) -> Void) {
        func visit(_ object: JSONObject?, _ member: String, _ place: FilePlace) {
            if case .string(let name)? = object?[member] { body(name, place) }
        }
        func elements(_ object: JSONObject?, _ member: String, _ body: (Int, JSONObject) -> Void) {
            for (index, element) in (object?[member]?.array ?? []).enumerated() {
                if case .object(let element) = element { body(index, element) }
            }
        }

        visit(order["merchant"]?.object, "logo", .merchantLogo)
        let provider = order["orderProvider"]?.object
        visit(provider, "trackingLogoNameLightColorScheme", .providerLightLogo)
        visit(provider, "trackingLogoNameDarkColorScheme", .providerDarkLogo)
        elements(order, "lineItems") { visit($1, "image", .image($0)) }
        elements(order, "fulfillments") { outer, fulfillment in
            elements(fulfillment, "lineItems") { visit($1, "image", .fulfillmentImage(outer, $0)) }
        }
        elements(order, "returns") { outer, item in
            visit(item, "returnLabel", .returnLabel(outer))
            elements(item, "lineItems") { visit($1, "image", .returnImage(outer, $0)) }
        }
        elements(order["payment"]?.object, "transactions") { visit($1, "receipt", .receipt($0)) }
    }

    /// Removes the value at the end of a path. A value that does not exist is ignored.
    static func remove(_ path: ArraySlice<FilePlace.Step>, from value: inout JSON) {
        self.change(path, in: &value, to: nil)
    }

    /// Sets another name at the end of a path.
    static func replace(_ path: ArraySlice<FilePlace.Step>, with name: String, in value: inout JSON) {
        self.change(path, in: &value, to: .string(name))
    }

    private static func change(_ path: ArraySlice<FilePlace.Step>, in value: inout JSON, to new: JSON?) {
        guard let step = path.first else { return }
        switch (step, value) {
        case (.member(let name), .object(var object)):
            if path.count == 1 {
                object[name] = new
            } else if var inner = object[name] {
                self.change(path.dropFirst(), in: &inner, to: new)
                object[name] = inner
            }
            value = .object(object)
        case (.element(let index), .array(var elements)) where elements.indices.contains(index):
            self.change(path.dropFirst(), in: &elements[index], to: new)
            value = .array(elements)
        default: break
        }
    }
}

/// The place of a file's name in an order. The numbers are the indices of the arrays on the path.
///
/// Source: Wallet Orders §3.2, §3.9, §3.11, §3.14, §3.16
enum FilePlace: Hashable {
    case merchantLogo
    case providerLightLogo
    case providerDarkLogo
    case image(Int)
    case fulfillmentImage(Int, Int)
    case returnLabel(Int)
    case returnImage(Int, Int)
    case receipt(Int)

    /// One step from the root of the document.
    enum Step: Hashable {
        case member(String)
        case element(Int)
    }

    /// The path to the name.
    var path: [Step] {
        switch self {
        case .merchantLogo: [.member("merchant"), .member("logo")]
        case .providerLightLogo: [.member("orderProvider"), .member("trackingLogoNameLightColorScheme")]
        case .providerDarkLogo: [.member("orderProvider"), .member("trackingLogoNameDarkColorScheme")]
        case .image(let item): [.member("lineItems"), .element(item), .member("image")]
        case .fulfillmentImage(let outer, let item):
            [.member("fulfillments"), .element(outer), .member("lineItems"), .element(item), .member("image")]
        case .returnLabel(let outer): [.member("returns"), .element(outer), .member("returnLabel")]
        case .returnImage(let outer, let item):
            [.member("returns"), .element(outer), .member("lineItems"), .element(item), .member("image")]
        case .receipt(let transaction):
            [.member("payment"), .member("transactions"), .element(transaction), .member("receipt")]
        }
    }

    /// The part that is left out if the file is missing: the name's member, or the whole order provider, which requires
    /// both logos.
    var omittedPath: ArraySlice<Step> {
        switch self {
        case .providerLightLogo, .providerDarkLogo: self.path.prefix(1)
        case .merchantLogo, .image, .fulfillmentImage, .returnLabel, .returnImage, .receipt: self.path[...]
        }
    }

    /// True if only a picture is allowed there, which may also be a URL; receipts and labels may also be PDF.
    ///
    /// Source: Wallet Orders §2.6, §2.7; Design §3
    var isPicture: Bool {
        switch self {
        case .merchantLogo, .providerLightLogo, .providerDarkLogo, .image, .fulfillmentImage, .returnImage: true
        case .returnLabel, .receipt: false
        }
    }

    /// `$.lineItems[0].image`
    var text: String {
        self.path.reduce(into: "$") { text, step in
            switch step {
            case .member(let name): text += ".\(name)"
            case .element(let index): text += "[\(index)]"
            }
        }
    }
}
