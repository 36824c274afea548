/// The moments when the values of a source's part were written, in milliseconds since 1970.
///
/// Elements with identifiers count as members of their array, named by their identifiers.
struct Moments: Hashable, Sendable {
    /// The moment of all values without one in `others`.
    let base: Int64
    /// The moments of members that were written at another time.
    private(set) var others: [ByteText: Moments] = [:]

    init(base: Int64) { self.base = base }

    /// The moments of a member.
    subscript(name: String) -> Moments { self.others[ByteText(name)] ?? Moments(base: self.base) }

    /// The latest moment of all values.
    var latest: Int64 { self.others.values.reduce(self.base) { max($0, $1.latest) } }

    /// Returns the moments after a change of the value: only values that differ get the new moment.
    ///
    /// - Parameter name: the name of the member that holds the value.
    func moved(from old: JSON, to new: JSON, named name: String, at moment: Int64) -> Moments {
        if old == new { return self }
        guard let before = Self.children(old, named: name), let after = Self.children(new, named: name),
            (old.object == nil) == (new.object == nil)
        else { return Moments(base: moment) }
        let known = Dictionary(before.map { (ByteText($0), $1) }) { first, _ in first }
        var next = Moments(base: self.base)
        for (name, value) in after {
            let moments =
                known[ByteText(name)].map { self[name].moved(from: $0, to: value, named: name, at: moment) }
                ?? Moments(base: moment)
            if moments != Moments(base: self.base) { next.others[ByteText(name)] = moments }
        }
        return next
    }

    private static func children(_ value: JSON, named name: String) -> [(String, JSON)]? {
        if let object = value.object { return object.members.map { ($0.name, $0.value) } }
        return IdentifiedElements.of(value, named: name)?.map { ($0.identifier, .object($0.element)) }
    }

    /// A number if all values have the same moment; otherwise `[base, {member: moments, …}]`.
    var json: JSON {
        if self.others.isEmpty { return .integer(self.base) }
        return [.integer(self.base), .object(JSONObject(self.others.map { ($0.key.text, $0.value.json) }))]
    }

    /// - Throws: `RecordError` when the JSON is not what `json` makes.
    init(json: JSON, path: String) throws(RecordError) {
        if let base = json.integer {
            self.base = base
            return
        }
        guard let pair = json.array, pair.count == 2, let base = pair[0].integer, let others = pair[1].object else {
            throw RecordError("\(path) must be milliseconds, or those and an object of others")
        }
        self.base = base
        for member in others.members {
            self.others[ByteText(member.name)] = try Moments(json: member.value, path: "\(path).\(member.name)")
        }
    }
}
