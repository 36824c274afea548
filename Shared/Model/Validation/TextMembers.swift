/// The members of an object that are texts of some formats, and those that contain such members: derived from its
/// schema, so that a member that is added there is one of them.
final class TextMembers: Sendable {
    /// All moments of order.json but `updatedAt`, which Waybill writes without a fraction.
    static let moments = TextMembers(of: [OrderSchema.order], except: ["updatedAt"]) { $0 == .dateTime }
    /// All names of files in order.json.
    static let files = TextMembers(of: [OrderSchema.order]) { [.image, .file, .label].contains($0) }
    /// The names of files that are an order's own documents: receipts and labels.
    static let ownDocuments = TextMembers(of: [OrderSchema.order]) { [.file, .label].contains($0) }

    let texts: [(name: String, format: TextFormat, isRequired: Bool)]
    let parts: [(name: String, isArray: Bool, members: TextMembers)]

    /// - Parameter schemas: those that the object may have.
    init(of schemas: [ObjectSchema], except omitted: Set<String> = [], where matches: (TextFormat) -> Bool) {
        var texts: [String: (format: TextFormat, isRequired: Bool)] = [:]
        var parts: [String: (isArray: Bool, schemas: [ObjectSchema])] = [:]
        for member in schemas.flatMap(\.members) where !omitted.contains(member.name) {
            if case .text(let format) = member.shape, matches(format) {
                texts[member.name] = (format, member.isRequired || texts[member.name]?.isRequired == true)
            }
            let isArray = if case .array = member.shape { true } else { false }
            parts[member.name, default: (isArray, [])].schemas += member.shape.objects
        }
        self.texts = texts.map { (name: $0, format: $1.format, isRequired: $1.isRequired) }.sorted { $0.name < $1.name }
        self.parts = parts.map { (name: $0, isArray: $1.isArray, members: TextMembers(of: $1.schemas, where: matches)) }
            .filter { !$0.members.texts.isEmpty || !$0.members.parts.isEmpty }
            .sorted { $0.name < $1.name }
    }
}

extension Shape {
    /// The schemas of the objects that the value is or contains directly.
    var objects: [ObjectSchema] {
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

/// The place of a file's name in an order.
///
/// Source: Wallet Orders §3.2, §3.9, §3.11, §3.14, §3.16
public struct FilePlace: Hashable, Sendable {
    /// One step from the root of the document.
    public enum Step: Hashable, Sendable {
        case member(String)
        case element(Int)
    }

    /// The path to the name.
    public let path: [Step]
    /// True if only a picture is allowed there; receipts and labels, an order's own documents, may also be PDF.
    ///
    /// Source: Wallet Orders §2.6, §2.7; Design §3
    public let isPicture: Bool
    /// True if the object that has the name requires it.
    let isRequired: Bool

    /// The part that is left out if the file is missing: the name's member, or the object that requires it, such as the
    /// order provider with its two logos.
    public var omittedPath: ArraySlice<Step> { self.isRequired ? self.path.dropLast() : self.path[...] }

    /// The same path for a violation.
    var steps: [Violation.Step] {
        self.path.map { step in
            switch step {
            case .member(let name): .member(name)
            case .element(let index): .element(index)
            }
        }
    }

    /// `$.lineItems[0].image`
    public var text: String {
        self.path.reduce(into: "$") { text, step in
            switch step {
            case .member(let name): text += ".\(name)"
            case .element(let index): text += "[\(index)]"
            }
        }
    }
}

extension JSONObject {
    /// Calls `body` for each name of a file in an order, in the order of the members' names.
    public func forEachFile(_ body: (_ name: String, _ place: FilePlace) -> Void) {
        var path: [FilePlace.Step] = []
        self.forEachFile(of: .files, &path, body)
    }

    /// The same for receipts and labels alone.
    func forEachOwnDocument(_ body: (_ name: String, _ place: FilePlace) -> Void) {
        var path: [FilePlace.Step] = []
        self.forEachFile(of: .ownDocuments, &path, body)
    }

    private func forEachFile(
        of members: TextMembers, _ path: inout [FilePlace.Step], _ body: (String, FilePlace) -> Void
    ) {
        for (name, format, isRequired) in members.texts {
            guard case .string(let text)? = self[name] else { continue }
            body(
                text,
                FilePlace(path: path + [.member(name)], isPicture: format == .image, isRequired: isRequired))
        }
        for (name, isArray, inner) in members.parts {
            path.append(.member(name))
            switch self[name] {
            case .object(let object) where !isArray: object.forEachFile(of: inner, &path, body)
            case .array(let elements) where isArray:
                for (index, element) in elements.enumerated() {
                    guard case .object(let element) = element else { continue }
                    path.append(.element(index))
                    element.forEachFile(of: inner, &path, body)
                    path.removeLast()
                }
            default: break
            }
            path.removeLast()
        }
    }
}
