extension JSONObject {
    /// Returns this object with a merge patch applied: null removes, objects merge, anything else replaces.
    ///
    /// Both are sorted, so one pass over both suffices. Depth is bounded by that of both, which the parser bounds.
    /// Source: RFC 7396 §2
    public func merging(_ patch: JSONObject) -> JSONObject {
        var merged: [Member] = []
        merged.reserveCapacity(self.members.count + patch.members.count)
        var index = 0
        for change in patch.members {
            while index < self.members.count, self.members[index].key < change.key {
                merged.append(self.members[index])
                index += 1
            }
            var old: JSON?
            if index < self.members.count, self.members[index].key == change.key {
                old = self.members[index].value
                index += 1
            }
            switch change.value {
            case .null: break
            case .object(let patch):
                merged.append(Member(name: change.name, value: .object((old?.object ?? JSONObject()).merging(patch))))
            default: merged.append(change)
            }
        }
        merged.append(contentsOf: self.members[index...])
        return JSONObject(sorted: merged)
    }
}
