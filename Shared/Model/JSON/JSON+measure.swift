extension JSON {
    /// A lower bound of the length of `serialized`: exact but for characters that must be escaped.
    var leastSize: Int {
        switch self {
        case .null: 4
        case .bool(let value): value ? 4 : 5
        case .number(let number): number.text.utf8.count
        case .string(let text): text.utf8.count + 2
        case .array(let elements): elements.reduce(1 + max(elements.count, 1)) { $0 + $1.leastSize }
        case .object(let object):
            object.members.reduce(1 + max(object.members.count, 1)) {
                $0 + $1.name.utf8.count + 3 + $1.value.leastSize
            }
        }
    }

    /// Whether arrays and objects nest to more than this many levels.
    func isDeeper(than levels: Int) -> Bool {
        switch self {
        case .null, .bool, .number, .string: false
        case .array(let elements): levels <= 0 || elements.contains { $0.isDeeper(than: levels - 1) }
        case .object(let object): levels <= 0 || object.members.contains { $0.value.isDeeper(than: levels - 1) }
        }
    }
}
