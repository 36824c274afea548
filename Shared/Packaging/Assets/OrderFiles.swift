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
        guard let step = path.first else { return }
        switch (step, value) {
        case (.member(let name), .object(var object)):
            if path.count == 1 {
                object[name] = new
            } else if var inner = object[name] {
                self.change(path.dropFirst(), in: &inner, to: new)
                object[name] = inner
            }
            value = .object(object)
        case (.element(let index), .array(var elements)) where elements.indices.contains(index):
            self.change(path.dropFirst(), in: &elements[index], to: new)
            value = .array(elements)
        default: break
        }
    }
}
