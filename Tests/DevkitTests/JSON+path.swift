import Model

extension JSON {
    /// Returns a copy with the value at a path (`payment.total.amount`, `lineItems.0.title`) replaced; nil removes it.
    func setting(_ path: String, _ value: JSON?) -> JSON { self.setting(path.split(separator: ".")[...], value) }

    private func setting(_ path: ArraySlice<Substring>, _ value: JSON?) -> JSON {
        guard let first = path.first else { return value ?? .null }
        let rest = path.dropFirst()
        switch self {
        case .object(var object):
            let name = String(first)
            object[name] = rest.isEmpty ? value : object[name]?.setting(rest, value)
            return .object(object)
        case .array(var array):
            guard let index = Int(first), array.indices.contains(index) else { return self }
            if rest.isEmpty, value == nil {
                array.remove(at: index)
            } else {
                array[index] = array[index].setting(rest, value)
            }
            return .array(array)
        default: return self
        }
    }

    /// The paths of all values inside.
    var paths: [String] {
        switch self {
        case .object(let object):
            object.members.flatMap { member in [member.name] + member.value.paths.map { "\(member.name).\($0)" } }
        case .array(let array):
            array.enumerated().flatMap { index, value in ["\(index)"] + value.paths.map { "\(index).\($0)" } }
        default: []
        }
    }
}
