extension JSON {
    /// A lower bound on the length of `serialized`: exact except for characters that must be escaped.
    var leastSize: Int {
        switch self {
        case .null: 4
        case .bool(let value): value ? 4 : 5
        case .number(let number): number.text.utf8.count
        case .string(let text): text.utf8.count + 2
        case .array(let elements): Self.leastSize(elements.span)
        case .object(let object): object.leastSize
        }
    }

    private static func leastSize(_ elements: Span<JSON>) -> Int {
        var size = 1 + max(elements.count, 1)
        for index in elements.indices { size += elements[index].leastSize }
        return size
    }

    /// Returns true if arrays and objects nest deeper than this number of levels.
    func isDeeper(than levels: Int) -> Bool {
        switch self {
        case .null, .bool, .number, .string: false
        case .array(let elements): levels <= 0 || elements.contains { $0.isDeeper(than: levels - 1) }
        case .object(let object): levels <= 0 || object.members.contains { $0.value.isDeeper(than: levels - 1) }
        }
    }
}

extension JSONObject {
    /// As `JSON.leastSize`.
    var leastSize: Int {
        let members = self.members.span
        var size = 1 + max(members.count, 1)
        for index in members.indices { size += members[index].name.utf8.count + 3 + members[index].value.leastSize }
        return size
    }
}
