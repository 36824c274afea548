extension JSONObject {
    /// Returns this object with a merge patch applied: null removes, objects merge, anything else replaces.
    ///
    /// Depth is bounded by that of both, which the parser bounds.
    /// Source: RFC 7396 §2
    public func merging(_ patch: JSONObject) -> JSONObject {
        self.joined(with: patch) { old, change in
            switch change.value {
            case .null: nil
            case .object(let patch): .object((old?.object ?? JSONObject()).merging(patch))
            case .bool, .number, .string, .array: change.value
            }
        }
    }

    /// Returns the members of both objects. Both are sorted, so one pass over both suffices.
    ///
    /// - Parameters:
    ///   - stays: returns false for a member of this object alone that goes.
    ///   - value: returns the value for a member of the other object, and the value that this one has; nil for none.
    func joined(
        with other: JSONObject, stays: (Member) -> Bool = { _ in true }, _ value: (JSON?, Member) -> JSON?
    ) -> JSONObject {
        var joined: [Member] = []
        joined.reserveCapacity(self.members.count + other.members.count)
        var index = 0
        for member in other.members {
            while index < self.members.count, self.members[index].key < member.key {
                if stays(self.members[index]) { joined.append(self.members[index]) }
                index += 1
            }
            var old: JSON?
            if index < self.members.count, self.members[index].key == member.key {
                old = self.members[index].value
                index += 1
            }
            if let value = value(old, member) { joined.append(Member(name: member.name, value: value)) }
        }
        joined.append(contentsOf: self.members[index...].lazy.filter(stays))
        return JSONObject(sorted: joined)
    }
}
