/// The moments when the values of a source's part were written, in milliseconds since 1970.
///
/// Elements with identifiers count as members of their array, named by their identifiers.
struct Moments: Hashable, Sendable {
    private struct Member: Hashable {
        let name: ByteText
        let moments: Moments
    }

    /// The moment of all values without one in `others`.
    let base: Int64
    /// The moments of members that were written at another time, sorted by name: they are written with each change of
    /// their order.
    private var others: [Member] = []

    init(base: Int64) { self.base = base }

    /// The moments of a member.
    subscript(name: String) -> Moments {
        let key = ByteText(name)
        var (low, high) = (0, self.others.count)
        while low < high {
            let middle = (low + high) / 2
            if self.others[middle].name < key { low = middle + 1 } else { high = middle }
        }
        guard low < self.others.count, self.others[low].name == key else { return Moments(base: self.base) }
        return self.others[low].moments
    }

    /// The latest moment of all values.
    var latest: Int64 { self.others.reduce(self.base) { max($0, $1.moments.latest) } }

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
            guard moments != Moments(base: self.base) else { continue }
            next.others.append(Member(name: ByteText(name), moments: moments))
        }
        // Elements are in the order of their array.
        next.others.sort { $0.name < $1.name }
        return next
    }

    private static func children(_ value: JSON, named name: String) -> [(String, JSON)]? {
        if let object = value.object { return object.members.map { ($0.name, $0.value) } }
        return IdentifiedElements.of(value, named: name)?.map { ($0.identifier, .object($0.element)) }
    }

    /// A number if all values have the same moment; otherwise `[base, {member: moments, …}]`.
    var json: JSON {
        if self.others.isEmpty { return .integer(self.base) }
        let others = self.others.map { JSONObject.Member(name: $0.name.text, value: $0.moments.json) }
        return [.integer(self.base), .object(JSONObject(sorted: others))]
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
            let moments = try Moments(json: member.value, path: "\(path).\(member.name)")
            self.others.append(Member(name: member.key, moments: moments))
        }
    }
}
