import Model

/// One pass over an order.json: collects grammar violations, and the named files with their places.
struct OrderWalk {
    /// A file that the order names.
    struct NamedFile: Sendable {
        let path: String
        let name: String
        /// True for receipts and labels; pictures must not be PDF.
        let mayBePDF: Bool
    }

    private(set) var violations: [PackageViolation] = []
    private(set) var files: [NamedFile] = []

    init(_ order: JSONObject) { self.object(order, OrderGrammar.order, "$") }

    private mutating func note(_ code: ViolationCode, _ path: String, _ message: String) {
        self.violations.note(code, "order.json \(path)", message)
    }

    private mutating func object(_ object: JSONObject, _ members: OrderGrammar.Members, _ path: String) {
        for name in members.required.keys.sorted() where object[name] == nil {
            self.note(.orderMemberMissing, "\(path).\(name)", "The member is missing; it is required.")
        }
        for member in object.members {
            guard let form = members.required[member.name] ?? members.optional[member.name] else { continue }
            self.value(member.value, form, "\(path).\(member.name)")
        }
    }

    private mutating func value(_ value: JSON, _ form: OrderGrammar.Form, _ path: String) {
        switch (form, value) {
        case (.object(let members), .object(let object)): self.object(object, members, path)
        case (.object, _): self.wrongKind(value, "an object", path)
        case (.list(let form), .array(let elements)):
            for (index, element) in elements.enumerated() { self.value(element, form, "\(path)[\(index)]") }
        case (.list, _): self.wrongKind(value, "an array", path)
        case (.fulfillment, .object(let object)): self.fulfillment(object, path)
        case (.fulfillment, _): self.wrongKind(value, "an object", path)
        case (.flag, .bool): break
        case (.flag, _): self.wrongKind(value, "true or false", path)
        case (.number(let range), .number(let number)):
            if !range.contains(number.double) {
                self.note(.orderValue, path, "\(quoted(number.text)) must be \(Self.words(range)).")
            }
        case (.number, _): self.wrongKind(value, "a number", path)
        case (_, .string(let text)): self.text(text, form, path)
        default: self.wrongKind(value, "a string", path)
        }
    }

    private mutating func wrongKind(_ value: JSON, _ expected: String, _ path: String) {
        self.note(.orderMemberKind, path, "It must be \(expected), it is \(value.kind).")
    }

    private mutating func text(_ text: String, _ form: OrderGrammar.Form, _ path: String) {
        switch form {
        case .identifier:
            if text.isEmpty { self.note(.orderValue, path, "It must not be empty.") }
        case .dateTime:
            if OrderText.moment(text) == nil {
                self.note(
                    .orderDate, path,
                    "\(quoted(text)) is no RFC 3339 date-time with zone such as 2025-03-05T16:02:11Z.")
            }
        case .duration:
            if !OrderText.isDuration(text) {
                self.note(.orderDuration, path, "\(quoted(text)) is no ISO 8601 duration such as PT1H30M.")
            }
        case .link:
            if !OrderText.isLink(text) { self.note(.orderLink, path, "\(quoted(text)) is no absolute URL.") }
        case .amount:
            if !OrderText.isAmount(text) {
                self.note(.orderValue, path, "\(quoted(text)) is no decimal number such as 19.99.")
            }
        case .letters(let count):
            if text.utf8.count != count || !text.utf8.allSatisfy({ $0 &- UInt8(ascii: "A") < 26 }) {
                self.note(.orderValue, path, "\(quoted(text)) must be \(count) capital letters, a code of ISO.")
            }
        case .choice(let choices):
            if !choices.contains(text) {
                self.note(.orderValue, path, "\(quoted(text)) is none of \(choices.joined(separator: ", ")).")
            }
        case .picture: self.files.append(NamedFile(path: path, name: text, mayBePDF: false))
        case .document: self.files.append(NamedFile(path: path, name: text, mayBePDF: true))
        case .text, .flag, .number, .list, .object, .fulfillment: break
        }
    }

    /// Source: Wallet Orders §3.12, §3.13
    private mutating func fulfillment(_ object: JSONObject, _ path: String) {
        let place = "\(path).fulfillmentType"
        switch object["fulfillmentType"] {
        case "shipping"?: self.object(object, OrderGrammar.shipping, path)
        case "pickup"?: self.object(object, OrderGrammar.pickup, path)
        case .string(let text)?: self.note(.orderValue, place, "\(quoted(text)) is none of shipping, pickup.")
        case nil: self.note(.orderMemberMissing, place, "The member is missing; it is required.")
        case let value?: self.wrongKind(value, "a string", place)
        }
    }

    private static func words(_ range: ClosedRange<Double>) -> String {
        range.upperBound.isInfinite ? "at least \(range.lowerBound)" : "\(range.lowerBound) to \(range.upperBound)"
    }
}
