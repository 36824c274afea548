/// The members that an event of a source could not say: the last value that the source gave them stays.
///
/// Each path has the names of members from the order on, and of elements their identifiers:
/// `["fulfillments", "f1", "trackingURL"]`.
public struct KeptMembers: Hashable, Sendable {
    public private(set) var paths: [[String]] = []

    /// The most members that are kept.
    public static let limit = 64
    /// The most names of a path, and the most bytes of all of them.
    private static let nameLimit = 8
    private static let lengthLimit = 512

    public init() {}

    /// - Parameter path: the JSON path of the value, for error messages.
    /// - Throws: `ChangeFault` with code `.invalidChange`.
    init(_ value: JSON, path: String) throws(ChangeFault) {
        let paths = value.array?.map { path in
            let names = path.array?.compactMap(\.string) ?? []
            return names.count == path.array?.count ? names : []
        }
        guard let paths, paths.count <= Self.limit, paths.allSatisfy(Self.isPath) else {
            throw ChangeFault(
                code: .invalidChange,
                reason: "\(path) must be an array of at most \(Self.limit) paths like "
                    + "[\"fulfillments\", \"f1\", \"trackingURL\"], of at most \(Self.nameLimit) names")
        }
        self.paths = paths
    }

    /// Adds a path, unless there is no room for it.
    mutating func keep(_ path: [String]) {
        guard self.paths.count < Self.limit, Self.isPath(path), !self.paths.contains(path) else { return }
        self.paths.append(path)
    }

    private static func isPath(_ names: [String]) -> Bool {
        (1...self.nameLimit).contains(names.count) && names.reduce(0) { $0 + $1.utf8.count } <= self.lengthLimit
    }

    public var json: JSON { .array(self.paths.map { .array($0.map { .string($0) }) }) }

    /// Returns what a source sent, with the values that its part has of the members that it could not say.
    func filling(_ sent: JSONObject, from old: JSONObject) -> JSONObject {
        var filled = sent
        for path in self.paths { filled.fill(path[...], from: old) }
        return filled
    }

    /// Returns the members that a source could not say after one more event of it: those of the event, and of these the
    /// ones that it neither sends nor owns.
    func after(_ sent: JSONObject, claim: OwnedPaths.Claim?, keeping keeps: KeptMembers) -> KeptMembers {
        var next = keeps
        for path in self.paths where !sent.says(path, claim) { next.keep(path) }
        return next
    }
}

extension JSONObject {
    /// Gives the member at a path the value that another object has there, if it has none.
    fileprivate mutating func fill(_ path: ArraySlice<String>, from old: JSONObject) {
        guard let name = path.first, let value = old[name] else { return }
        let rest = path.dropFirst()
        guard let identifier = rest.first else {
            if self[name] == nil { self[name] = value }
            return
        }
        if var inside = self[name]?.object, let old = value.object {
            inside.fill(rest, from: old)
            self[name] = .object(inside)
        } else if let own = self[name], var elements = IdentifiedElements.of(own, named: name),
            let place = elements.firstIndex(where: { $0.identifier.hasSameBytes(as: identifier) }),
            let old = IdentifiedElements.of(value, named: name)?
                .first(where: { $0.identifier.hasSameBytes(as: identifier) })
        {
            elements[place].element.fill(rest.dropFirst(), from: old.element)
            self[name] = .array(elements.map { .object($0.element) })
        }
    }

    /// Returns true if this event of a source decides the member at a path: it has the member, or owns it.
    fileprivate func says(_ path: [String], _ claim: OwnedPaths.Claim?) -> Bool {
        var value = JSON.object(self)
        var claim = claim
        var array: String?
        for name in path {
            if let named = array, case .array = value {
                array = nil
                guard
                    let found = IdentifiedElements.of(value, named: named)?
                        .first(where: { $0.identifier.hasSameBytes(as: name) })
                else { return false }
                value = .object(found.element)
                continue
            }
            claim = claim?.members[ByteText(name)]
            if claim?.isOwned == true { return true }
            guard let member = value.object?[name] else { return false }
            (value, array) = (member, name)
        }
        return true
    }
}
