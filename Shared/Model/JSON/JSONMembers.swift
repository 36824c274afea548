/// The members of a JSON object, taken one by one by name and type; each refusal is a sentence with the path.
///
/// Where members that nobody takes are usually typing errors, `refuseRest` refuses them; readers of records leave them.
public struct JSONMembers<Failure: Error> {
    private let path: String
    private let object: JSONObject
    private let failure: @Sendable (String) -> Failure
    /// Bit n is set once the n-th member was taken. A reader that refuses the rest knows fewer than 64.
    private var taken: UInt64 = 0

    /// - Parameters:
    ///   - path: that of the object, for messages: `$.push`.
    ///   - failure: makes an error of a sentence, which names no value but those of `choice` and `file`.
    public init(_ json: JSON, path: String, failure: @escaping @Sendable (String) -> Failure) throws(Failure) {
        guard case .object(let object) = json else {
            throw failure("\(path): must be an object, it is \(json.kind)")
        }
        self.path = path
        self.object = object
        self.failure = failure
    }

    /// Returns an error about a member.
    public func wrong(_ name: String, _ problem: String) -> Failure {
        self.failure("\(self.path).\(name): \(problem)")
    }

    private func unexpected(_ name: String, _ value: JSON?, _ expected: String) -> Failure {
        guard let value else { return self.failure("\(self.path).\(name) is missing: give \(expected)") }
        return self.wrong(name, "must be \(expected), it is \(value.kind)")
    }

    /// Returns true if a member exists.
    public func has(_ name: String) -> Bool { self.object.index(of: name).exists }

    /// Takes a member of any type; nil if it does not exist.
    public mutating func take(_ name: String) -> JSON? {
        let (index, exists) = self.object.index(of: name)
        guard exists else { return nil }
        if index < UInt64.bitWidth { self.taken |= 1 << UInt64(index) }
        return self.object.members[index].value
    }

    /// Refuses the members that were not taken.
    public func refuseRest() throws(Failure) {
        for (index, member) in self.object.members.enumerated()
        where index >= UInt64.bitWidth || self.taken & 1 << UInt64(index) == 0 {
            throw self.failure("\(self.path).\(member.name) is not a known member: check its spelling")
        }
    }

    // MARK: members that must exist

    /// Takes a member of any type.
    public mutating func value(_ name: String) throws(Failure) -> JSON {
        guard let value = self.take(name) else { throw self.unexpected(name, nil, "a value") }
        return value
    }

    /// Takes a text, which may be empty.
    public mutating func string(_ name: String) throws(Failure) -> String {
        let value = self.take(name)
        guard let string = value?.string else { throw self.unexpected(name, value, "a string") }
        return string
    }

    /// Takes a text that is not empty.
    public mutating func text(_ name: String) throws(Failure) -> String {
        guard let text = try self.optionalText(name) else {
            throw self.unexpected(name, nil, "a non-empty string")
        }
        return text
    }

    /// Takes the path of a file that is inside a directory.
    public mutating func file(_ name: String) throws(Failure) -> String {
        guard let file = try self.optionalFile(name) else { throw self.unexpected(name, nil, "a non-empty string") }
        return file
    }

    /// Takes a whole number.
    public mutating func integer(_ name: String, in range: ClosedRange<Int64>) throws(Failure) -> Int64 {
        let value = self.take(name)
        guard let integer = value?.integer, range.contains(integer) else {
            throw self.unexpected(name, value, "an integer from \(range.lowerBound) to \(range.upperBound)")
        }
        return integer
    }

    /// Takes a text that an identifier is made of.
    public mutating func identifier<Identifier>(
        _ name: String, _ make: (String) throws(IdentifierError) -> Identifier
    ) throws(Failure) -> Identifier {
        let text = try self.string(name)
        do { return try make(text) } catch { throw self.wrong(name, "\(error)") }
    }

    /// Takes an array.
    public mutating func array(_ name: String) throws(Failure) -> [JSON] {
        let value = self.take(name)
        guard let array = value?.array else { throw self.unexpected(name, value, "an array") }
        return array
    }

    /// Takes an array of texts.
    public mutating func texts(_ name: String) throws(Failure) -> [String] {
        guard let texts = try self.optionalTexts(name) else {
            throw self.unexpected(name, nil, "an array of strings")
        }
        return texts
    }

    /// Takes an object that is not read here.
    public mutating func object(_ name: String) throws(Failure) -> JSONObject {
        guard let object = try self.optionalObject(name) else { throw self.unexpected(name, nil, "an object") }
        return object
    }

    /// Takes an object and its members in turn.
    public mutating func members(_ name: String) throws(Failure) -> JSONMembers {
        guard let members = try self.optionalMembers(name) else { throw self.unexpected(name, nil, "an object") }
        return members
    }

    // MARK: members that may be missing

    /// Takes a text that is not empty.
    public mutating func optionalText(_ name: String) throws(Failure) -> String? {
        guard let value = self.take(name) else { return nil }
        guard let text = value.string, !text.isEmpty else { throw self.unexpected(name, value, "a non-empty string") }
        return text
    }

    /// Takes a whole number.
    public mutating func optionalInteger(_ name: String) throws(Failure) -> Int64? {
        guard let value = self.take(name) else { return nil }
        guard let integer = value.integer else { throw self.unexpected(name, value, "a whole number") }
        return integer
    }

    /// Takes true or false; false if it is missing.
    public mutating func flag(_ name: String) throws(Failure) -> Bool {
        guard let value = self.take(name) else { return false }
        guard let flag = value.bool else { throw self.unexpected(name, value, "true or false") }
        return flag
    }

    /// Takes the path of a file that is inside a directory.
    public mutating func optionalFile(_ name: String) throws(Failure) -> String? {
        guard let text = try self.optionalText(name) else { return nil }
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard !text.hasPrefix("/"), !parts.contains(".."), !text.utf8.contains(0) else {
            throw self.wrong(name, "\"\(text)\" must be a path relative to the directory of this file, without ..")
        }
        return text
    }

    /// Takes one of an enumeration's raw values.
    public mutating func choice<Choice: RawRepresentable<String> & CaseIterable>(
        _ name: String
    ) throws(Failure) -> Choice? {
        guard let text = try self.optionalText(name) else { return nil }
        guard let value = Choice(rawValue: text) else {
            let choices = Choice.allCases.map { "\"\($0.rawValue)\"" }.joined(separator: " or ")
            throw self.wrong(name, "\"\(text)\" must be \(choices)")
        }
        return value
    }

    /// Takes some of an enumeration's raw values, each once; `fallback` if it is missing.
    public mutating func choices<Choice: RawRepresentable<String> & CaseIterable & Hashable>(
        _ name: String, default fallback: Set<Choice>
    ) throws(Failure) -> Set<Choice> {
        guard let texts = try self.optionalTexts(name) else { return fallback }
        var choices: Set<Choice> = []
        for text in texts {
            guard let choice = Choice(rawValue: text), choices.insert(choice).inserted else {
                let known = Choice.allCases.map(\.rawValue).joined(separator: ", ")
                throw self.wrong(name, "must name some of \(known), each once")
            }
        }
        return choices
    }

    /// Takes an array of texts.
    public mutating func optionalTexts(_ name: String) throws(Failure) -> [String]? {
        guard let value = self.take(name) else { return nil }
        guard let elements = value.array else { throw self.unexpected(name, value, "an array of strings") }
        var texts: [String] = []
        for (index, element) in elements.enumerated() {
            guard let text = element.string else { throw self.unexpected("\(name)[\(index)]", element, "a string") }
            texts.append(text)
        }
        return texts
    }

    /// Takes an object that is not read here.
    public mutating func optionalObject(_ name: String) throws(Failure) -> JSONObject? {
        guard let value = self.take(name) else { return nil }
        guard let object = value.object else { throw self.unexpected(name, value, "an object") }
        return object
    }

    /// Takes an object and its members in turn.
    public mutating func optionalMembers(_ name: String) throws(Failure) -> JSONMembers? {
        guard let value = self.take(name) else { return nil }
        return try self.inner(value, name)
    }

    /// Takes the objects of an array; none if it is missing.
    public mutating func list(_ name: String) throws(Failure) -> [JSONMembers] {
        guard let value = self.take(name) else { return [] }
        guard let elements = value.array else { throw self.unexpected(name, value, "an array of objects") }
        var list: [JSONMembers] = []
        for (index, element) in elements.enumerated() { list.append(try self.inner(element, "\(name)[\(index)]")) }
        return list
    }

    /// Takes an object whose members are objects, and returns those by name; none if it is missing.
    public mutating func table(_ name: String) throws(Failure) -> [(name: String, members: JSONMembers)] {
        var table: [(name: String, members: JSONMembers)] = []
        for member in try self.optionalObject(name)?.members ?? [] {
            table.append((member.name, try self.inner(member.value, "\(name)[\"\(member.name)\"]")))
        }
        return table
    }

    private func inner(_ value: JSON, _ name: String) throws(Failure) -> JSONMembers {
        try JSONMembers(value, path: "\(self.path).\(name)", failure: self.failure)
    }
}
