public import Model

extension JSON {
    /// Returns a copy with the value at a path (`payment.total.amount`, `lineItems.0.title`) replaced; nil removes it.
    public func setting(_ value: JSON?, _ path: String) -> JSON { self.setting(value, path.split(separator: ".")[...]) }

    private func setting(_ value: JSON?, _ path: ArraySlice<Substring>) -> JSON {
        guard let first = path.first else { return value ?? .null }
        let rest = path.dropFirst()
        switch self {
        case .object(var object):
            let name = String(first)
            object[name] = rest.isEmpty ? value : object[name]?.setting(value, rest)
            return .object(object)
        case .array(var array):
            guard let index = Int(first), array.indices.contains(index) else { return self }
            if rest.isEmpty, value == nil {
                array.remove(at: index)
            } else {
                array[index] = array[index].setting(value, rest)
            }
            return .array(array)
        default: return self
        }
    }

    /// The paths of all values inside.
    public var paths: [String] {
        switch self {
        case .object(let object):
            object.members.flatMap { member in [member.name] + member.value.paths.map { "\(member.name).\($0)" } }
        case .array(let array):
            array.enumerated().flatMap { index, value in ["\(index)"] + value.paths.map { "\(index).\($0)" } }
        default: []
        }
    }

    /// The value at a path; nil if there is none.
    public subscript(path path: String) -> JSON? {
        var value: JSON? = self
        for part in path.split(separator: ".") {
            value =
                Int(part).flatMap { index in value?.array.flatMap { $0.indices.contains(index) ? $0[index] : nil } }
                ?? value?.object?[String(part)]
        }
        return value
    }
}
