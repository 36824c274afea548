import Model

/// Changes of the names of files in an order.
enum OrderFiles {
    /// Removes the value at the end of a path. A value that does not exist is ignored.
    static func remove(_ path: ArraySlice<FilePlace.Step>, from value: inout JSON) {
        self.change(path, in: &value, to: nil)
    }

    /// Sets another name at the end of a path.
    static func replace(_ path: ArraySlice<FilePlace.Step>, with name: String, in value: inout JSON) {
        self.change(path, in: &value, to: .string(name))
    }

    private static func change(_ path: ArraySlice<FilePlace.Step>, in value: inout JSON, to new: JSON?) {
        // Each value is taken out before it is changed: one that has a second owner would be copied, with all its
        // elements, for each of its names.
        switch path.first {
        case .member(let name)?:
            guard var object = value.object else { return }
            value = .null
            if path.count == 1 {
                object[name] = new
            } else if var inner = object[name] {
                object[name] = .null
                self.change(path.dropFirst(), in: &inner, to: new)
                object[name] = inner
            }
            value = .object(object)
        case .element(let index)?:
            guard var elements = value.array, elements.indices.contains(index) else { return }
            value = .null
            self.change(path.dropFirst(), in: &elements[index], to: new)
            value = .array(elements)
        case nil: break
        }
    }
}
