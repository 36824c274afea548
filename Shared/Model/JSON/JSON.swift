/// A JSON value that keeps numbers as their text and sorts the members of objects by name.
///
/// Two values are equal if their content is the same, regardless of the order of members and white space.
/// Source: RFC 8259
public enum JSON: Hashable, Sendable {
    case null
    case bool(Bool)
    case number(JSONNumber)
    case string(String)
    case array([JSON])
    case object(JSONObject)
}

extension JSON {
    /// Compares texts by their bytes, unlike Swift's comparison of strings: equal values give equal bytes.
    public static func == (left: JSON, right: JSON) -> Bool {
        switch (left, right) {
        case (.null, .null): true
        case (.bool(let left), .bool(let right)): left == right
        case (.number(let left), .number(let right)): left == right
        case (.string(let left), .string(let right)): left.hasSameBytes(as: right)
        case (.array(let left), .array(let right)): left == right
        case (.object(let left), .object(let right)): left == right
        default: false
        }
    }
}

extension JSON {
    /// The string, or nil for a value of another kind.
    public var string: String? { if case .string(let value) = self { value } else { nil } }
    /// The elements, or nil for a value of another kind.
    public var array: [JSON]? { if case .array(let value) = self { value } else { nil } }
    /// The object, or nil for a value of another kind.
    public var object: JSONObject? { if case .object(let value) = self { value } else { nil } }
    /// The number, or nil for a value of another kind.
    public var number: JSONNumber? { if case .number(let value) = self { value } else { nil } }
    /// The truth value, or nil for a value of another kind.
    public var bool: Bool? { if case .bool(let value) = self { value } else { nil } }

    /// The number as a whole one, or nil for another kind, a fraction, or one outside `Int64`.
    public var integer: Int64? { self.number?.integer }

    /// Returns an integer as JSON.
    public static func integer(_ value: Int64) -> JSON { .number(JSONNumber(value)) }

    /// The kind of the value with its article, for messages to people: `"a string"`.
    public var kind: String {
        switch self {
        case .null: "null"
        case .bool: "a boolean"
        case .number: "a number"
        case .string: "a string"
        case .array: "an array"
        case .object: "an object"
        }
    }
}

extension JSON: ExpressibleByStringLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral,
    ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral
{
    public init(stringLiteral value: String) { self = .string(value) }
    public init(arrayLiteral elements: JSON...) { self = .array(elements) }
    public init(dictionaryLiteral elements: (String, JSON)...) { self = .object(JSONObject(elements)) }
    public init(integerLiteral value: Int64) { self = .integer(value) }
    public init(booleanLiteral value: Bool) { self = .bool(value) }
}

extension JSONObject: ExpressibleByDictionaryLiteral {
    public init(dictionaryLiteral elements: (String, JSON)...) { self.init(elements) }
}

/// A number as it was written, so that nothing is lost to binary floating point.
public struct JSONNumber: Hashable, Sendable {
    /// The text of the number (RFC 8259 §6).
    public let text: String

    /// - Parameter text: already checked against the grammar of RFC 8259 §6.
    init(checked text: String) { self.text = text }

    public init(_ value: Int64) { self.text = String(value) }

    /// - Returns: nil if the text is not a number of JSON alone.
    public init?(_ text: String) {
        guard let number = (try? JSON(parsing: Array(text.utf8)))?.number, number.text.utf8.count == text.utf8.count
        else { return nil }
        self = number
    }

    /// The value if it is written without fraction and exponent and fits.
    public var integer: Int64? { Int64(self.text) }
    /// The nearest binary value; infinite when it is out of range.
    public var double: Double { self.integer.map(Double.init) ?? Double(self.text) ?? .nan }
}

/// The members of a JSON object, sorted by the bytes of their names, each name once.
public struct JSONObject: Hashable, Sendable {
    public struct Member: Hashable, Sendable {
        /// The name, by whose bytes members are sorted and found.
        let key: ByteText
        public var value: JSON

        public init(name: String, value: JSON) {
            self.key = ByteText(name)
            self.value = value
        }

        public var name: String { self.key.text }
    }

    public private(set) var members: [Member]

    public init() { self.members = [] }

    /// Of two members with the same name the later one wins.
    public init(_ members: some Sequence<(String, JSON)>) {
        var duplicate: String?
        self.init(unsorted: members.map { Member(name: $0, value: $1) }, duplicate: &duplicate)
        if duplicate == nil { return }
        let all = self.members
        self.members = all.indices.filter { $0 + 1 == all.count || all[$0].key != all[$0 + 1].key }.map { all[$0] }
    }

    /// - Parameter duplicate: set to a name that occurs twice.
    public init(unsorted members: consuming [Member], duplicate: inout String?) {
        self.members = members
        // Few members are moved to their places one by one; those that we wrote ourselves are already sorted. Members
        // with the same name stay in sequence.
        if self.members.count > 32 { self.members.sort { $0.key < $1.key } }
        for index in self.members.indices.dropFirst() {
            let place = self.place(of: index)
            if place > 0, self.members[place - 1].key == self.members[index].key {
                duplicate = self.members[index].name
            }
            if place < index { self.members.insert(self.members.remove(at: index), at: place) }
        }
    }

    /// Returns the index at which a member belongs among the sorted ones before it: after those with its name.
    private func place(of index: Int) -> Int {
        let members = self.members.span
        if members[index - 1].key < members[index].key { return index }
        var low = 0
        var high = index
        while low < high {
            let middle = (low + high) / 2
            if members[index].key < members[middle].key { high = middle } else { low = middle + 1 }
        }
        return low
    }

    /// - Parameter members: already sorted by name, each name once.
    init(sorted members: [Member]) { self.members = members }

    public var isEmpty: Bool { self.members.isEmpty }

    /// Reads, replaces, adds or (with nil) removes the member of a name.
    public subscript(name: String) -> JSON? {
        get {
            let (index, exists) = self.index(of: name)
            return exists ? self.members[index].value : nil
        }
        set {
            let (index, exists) = self.index(of: name)
            switch (exists, newValue) {
            case (true, let value?): self.members[index].value = value
            case (true, nil): self.members.remove(at: index)
            case (false, let value?): self.members.insert(Member(name: name, value: value), at: index)
            case (false, nil): break
            }
        }
    }

    /// Returns the index of the member of a name, or the index at which it would be inserted.
    func index(of name: String) -> (index: Int, exists: Bool) {
        let members = self.members.span
        let key = ByteText(name)
        var low = 0
        var high = members.count
        while low < high {
            let middle = (low + high) / 2
            let order = members[middle].key.order(to: key)
            if order == 0 { return (middle, true) }
            if order < 0 { low = middle + 1 } else { high = middle }
        }
        return (low, false)
    }
}

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

    /// The number of values: this one and all inside it.
    var entryCount: Int {
        switch self {
        case .null, .bool, .number, .string: 1
        case .array(let elements): elements.reduce(1) { $0 + $1.entryCount }
        case .object(let object): object.members.reduce(1) { $0 + $1.value.entryCount }
        }
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
