import Model

/// The reason why a merchant cannot be loaded, in a sentence for the person who maintains its directory.
struct MerchantError: Error, Hashable, Sendable, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

/// The members of an object in `merchant.json`, taken one by one, so that unknown members are noticed.
struct MerchantMembers {
    private let path: String
    private var rest: JSONObject

    /// - Parameter path: that of the object, for messages: `$.upstream`.
    init(_ json: JSON, path: String) throws(MerchantError) {
        guard let object = json.object else {
            throw MerchantError("\(path): must be an object, it is \(json.kind)")
        }
        self.path = path
        self.rest = object
    }

    private mutating func take(_ name: String) -> JSON? {
        defer { self.rest[name] = nil }
        return self.rest[name]
    }

    func wrong(_ name: String, _ problem: String) -> MerchantError {
        MerchantError("\(self.path).\(name): \(problem)")
    }

    private func missing(_ name: String, _ value: JSON?, _ expected: String) -> MerchantError {
        self.wrong(name, value.map { "must be \(expected), it is \($0.kind)" } ?? "is missing: give \(expected)")
    }

    /// Takes a non-empty text; nil if the member is missing.
    mutating func text(_ name: String) throws(MerchantError) -> String? {
        guard let value = self.take(name) else { return nil }
        guard let text = value.string, !text.isEmpty else { throw self.missing(name, value, "a non-empty string") }
        return text
    }

    mutating func requiredText(_ name: String) throws(MerchantError) -> String {
        guard let text = try self.text(name) else { throw self.missing(name, nil, "a non-empty string") }
        return text
    }

    /// Takes the path of a file in the merchant's directory; nil if the member is missing.
    mutating func file(_ name: String) throws(MerchantError) -> String? {
        guard let text = try self.text(name) else { return nil }
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard !text.hasPrefix("/"), !parts.contains(".."), !text.utf8.contains(0) else {
            throw self.wrong(name, "must be a path relative to the merchant's directory, without ..")
        }
        return text
    }

    mutating func flag(_ name: String) throws(MerchantError) -> Bool {
        guard let value = self.take(name) else { return false }
        guard let flag = value.bool else { throw self.missing(name, value, "true or false") }
        return flag
    }

    /// Takes an array of texts; nil if the member is missing.
    mutating func texts(_ name: String) throws(MerchantError) -> [String]? {
        guard let value = self.take(name) else { return nil }
        let texts = value.array?.compactMap(\.string)
        guard let texts, texts.count == value.array?.count else {
            throw self.missing(name, value, "an array of strings")
        }
        return texts
    }

    /// Takes some of an enumeration's raw values, each once; `fallback` if the member is missing.
    mutating func choices<Choice: RawRepresentable<String> & CaseIterable & Hashable>(
        _ name: String, default fallback: Set<Choice>
    ) throws(MerchantError) -> Set<Choice> {
        guard let texts = try self.texts(name) else { return fallback }
        var choices: Set<Choice> = []
        for text in texts {
            guard let choice = Choice(rawValue: text), choices.insert(choice).inserted else {
                let known = Choice.allCases.map(\.rawValue).joined(separator: ", ")
                throw self.wrong(name, "must name some of \(known), each once")
            }
        }
        return choices
    }

    /// Takes the objects of an array; none if the member is missing.
    mutating func objects(_ name: String) throws(MerchantError) -> [MerchantMembers] {
        guard let value = self.take(name) else { return [] }
        guard let elements = value.array else { throw self.missing(name, value, "an array of objects") }
        var objects: [MerchantMembers] = []
        for (index, element) in elements.enumerated() {
            objects.append(try MerchantMembers(element, path: "\(self.path).\(name)[\(index)]"))
        }
        return objects
    }

    /// Takes an object whose members are objects, and returns those by name; none if it is missing.
    mutating func table(_ name: String) throws(MerchantError) -> [(name: String, members: MerchantMembers)] {
        guard let value = self.take(name) else { return [] }
        guard let object = value.object else { throw self.missing(name, value, "an object") }
        var table: [(name: String, members: MerchantMembers)] = []
        for member in object.members {
            let members = try MerchantMembers(member.value, path: "\(self.path).\(name)[\"\(member.name)\"]")
            table.append((member.name, members))
        }
        return table
    }

    /// Takes an object; nil if the member is missing.
    mutating func object(_ name: String) throws(MerchantError) -> MerchantMembers? {
        guard let value = self.take(name) else { return nil }
        return try MerchantMembers(value, path: "\(self.path).\(name)")
    }

    /// Refuses members that were not taken.
    func refuseRest() throws(MerchantError) {
        guard let first = self.rest.members.first else { return }
        throw self.wrong(first.name, "is not a known member: check its spelling")
    }
}
