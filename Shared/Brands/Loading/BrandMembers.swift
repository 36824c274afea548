import Model

/// The members of an object, removed one by one, so that unknown ones are left over at the end.
struct BrandMembers {
    private let path: String
    private var rest: JSONObject

    /// - Parameter path: its path, for messages: `$.push`.
    /// - Throws: `BrandError` `.configuration`, as do all methods.
    init(_ json: JSON, path: String) throws(BrandError) {
        guard case .object(let object) = json else {
            throw BrandError(.configuration, "\(path): must be an object, it is \(json.kind)")
        }
        self.path = path
        self.rest = object
    }

    private mutating func take(_ name: String) -> JSON? {
        defer { self.rest[name] = nil }
        return self.rest[name]
    }

    private func wrong(_ name: String, _ value: JSON?, _ expected: String) -> BrandError {
        guard let value else {
            return BrandError(.configuration, "\(self.path).\(name) is missing: give \(expected)")
        }
        return BrandError(.configuration, "\(self.path).\(name): must be \(expected), it is \(value.kind)")
    }

    /// Removes and returns a text that is not empty.
    mutating func string(_ name: String) throws(BrandError) -> String {
        let value = self.take(name)
        guard case .string(let text)? = value, !text.isEmpty else {
            throw self.wrong(name, value, "a non-empty string")
        }
        return text
    }

    /// Removes and returns a text that is not empty; nil if the member does not exist.
    mutating func optionalString(_ name: String) throws(BrandError) -> String? {
        self.rest[name] == nil ? nil : try self.string(name)
    }

    /// Removes and returns one of an enumeration's raw values; nil if the member does not exist.
    mutating func choice<Choice: RawRepresentable<String> & CaseIterable>(
        _ name: String
    ) throws(BrandError) -> Choice? {
        guard let text = try self.optionalString(name) else { return nil }
        guard let value = Choice(rawValue: text) else {
            let choices = Choice.allCases.map { "\"\($0.rawValue)\"" }.joined(separator: " or ")
            throw BrandError(.configuration, "\(self.path).\(name): \"\(text)\" must be \(choices)")
        }
        return value
    }

    /// Removes and returns a whole number; nil if the member does not exist.
    mutating func integer(_ name: String) throws(BrandError) -> Int64? {
        let value = self.take(name)
        guard let value else { return nil }
        guard let number = value.integer else { throw self.wrong(name, value, "a whole number") }
        return number
    }

    /// Removes and returns a path inside the brand's directory.
    mutating func file(_ name: String) throws(BrandError) -> String {
        let text = try self.string(name)
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard !text.hasPrefix("/"), !parts.contains(".."), !text.utf8.contains(0) else {
            throw BrandError(
                .configuration,
                "\(self.path).\(name): \"\(text)\" must be a path relative to the brand's directory, without ..")
        }
        return text
    }

    /// Removes and returns a path inside the brand's directory; nil if the member does not exist.
    mutating func optionalFile(_ name: String) throws(BrandError) -> String? {
        self.rest[name] == nil ? nil : try self.file(name)
    }

    /// Removes and returns ten upper-case letters and digits. Source: Wallet Orders §4.4
    mutating func appleIdentifier(_ name: String) throws(BrandError) -> String {
        let text = try self.string(name)
        let valid = text.utf8.allSatisfy {
            (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0)
        }
        guard valid, text.utf8.count == 10 else {
            throw BrandError(.configuration, "\(self.path).\(name): \"\(text)\" is not ten of A-Z and 0-9")
        }
        return text
    }

    /// Removes and returns true or false; nil if the member does not exist.
    mutating func bool(_ name: String) throws(BrandError) -> Bool? {
        let value = self.take(name)
        guard let value else { return nil }
        guard case .bool(let truth) = value else { throw self.wrong(name, value, "true or false") }
        return truth
    }

    /// The result of `selection`.
    enum Selection {
        case all
        case some([String])
    }

    /// Removes a member that is true for all, or an array of texts for some; nil if it is false or does not exist.
    mutating func selection(_ name: String) throws(BrandError) -> Selection? {
        switch self.rest[name] {
        case nil: return nil
        case .bool(let isAll)?:
            _ = self.take(name)
            return isAll ? .all : nil
        case .array?: return .some(try self.texts(name))
        case let other?: throw self.wrong(name, other, "true, false or an array of strings")
        }
    }

    /// Removes and returns an array of texts.
    mutating func texts(_ name: String) throws(BrandError) -> [String] {
        let value = self.take(name)
        guard case .array(let elements)? = value else { throw self.wrong(name, value, "an array of strings") }
        var texts: [String] = []
        for (index, element) in elements.enumerated() {
            guard let text = element.string else { throw self.wrong("\(name)[\(index)]", element, "a string") }
            texts.append(text)
        }
        return texts
    }

    /// Removes and returns an object that is not parsed further; nil if the member does not exist.
    mutating func object(_ name: String) throws(BrandError) -> JSONObject? {
        let value = self.take(name)
        guard let value else { return nil }
        guard case .object(let object) = value else { throw self.wrong(name, value, "an object") }
        return object
    }

    /// Removes and returns an object whose members are removed in turn.
    mutating func members(_ name: String) throws(BrandError) -> BrandMembers {
        let value = self.take(name)
        guard let value else { throw self.wrong(name, value, "an object") }
        return try BrandMembers(value, path: "\(self.path).\(name)")
    }

    /// Removes and returns an object whose members are removed in turn; nil if it does not exist.
    mutating func optionalMembers(_ name: String) throws(BrandError) -> BrandMembers? {
        guard let value = self.take(name) else { return nil }
        return try BrandMembers(value, path: "\(self.path).\(name)")
    }

    /// Refuses the members that were not removed.
    func refuseRest() throws(BrandError) {
        guard let first = self.rest.members.first else { return }
        throw BrandError(.configuration, "\(self.path).\(first.name) is not a known member: check its spelling")
    }
}
