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
    /// True if only a picture is allowed there, which may also be a URL; receipts and labels may also be PDF.
    ///
    /// Source: Wallet Orders §2.6, §2.7; Design §3
    public let isPicture: Bool
    /// True if the object that has the name requires it.
    let isRequired: Bool

    /// The part that is left out if the file is missing: the name's member, or the object that requires it, such as the
    /// order provider with its two logos.
    public var omittedPath: ArraySlice<Step> { self.isRequired ? self.path.dropLast() : self.path[...] }

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
