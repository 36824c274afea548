import HTTPServer
import Model

/// A form-encoded body with brackets in its names, as payment providers accept it: `a=1&b[c]=2&d[]=3`.
///
/// Strict: it refuses a name that occurs twice, a text and an object under one name, broken percent-encoding, and
/// anything but UTF-8. Bounded in pairs and depth; the caller limits the size of the body.
/// Source: WHATWG URL §5.1, `application/x-www-form-urlencoded` parsing
struct FormBody: Hashable, Sendable {
    /// Most pairs.
    static let pairLimit = 200
    /// Most nested names: `a[b][c]` has three.
    static let depthLimit = 5

    /// The reason why a body is not a form. It reveals nothing of the content.
    struct Failure: Error, Hashable { let message: String }

    /// One pair as it was received, with its name split into parts; an empty part represents `[]`.
    struct Pair: Hashable, Sendable {
        let path: [String]
        let value: String
        let raw: [UInt8]
    }

    let pairs: [Pair]
    /// The pairs as one object of texts, objects and arrays.
    let object: JSONObject

    init(_ bytes: [UInt8]) throws(Failure) {
        var pairs: [Pair] = []
        var root = Node()
        for part in bytes.split(separator: UInt8(ascii: "&")) {
            guard pairs.count < Self.pairLimit else {
                throw Failure(message: "it has more than \(Self.pairLimit) pairs")
            }
            let equals = part.firstIndex(of: UInt8(ascii: "=")) ?? part.endIndex
            let name = try Self.decoded(part[..<equals])
            let value = equals < part.endIndex ? try Self.decoded(part[(equals + 1)...]) : ""
            let path = try Self.path(name)
            try root.add(path[...], value)
            pairs.append(Pair(path: path, value: value, raw: Array(part)))
        }
        self.pairs = pairs
        self.object = root.json.object ?? [:]
    }

    /// Returns the body without a member, for a recipient that must not see it.
    func bytes(without name: String) -> [UInt8] {
        Array(self.pairs.filter { $0.path[0] != name }.map(\.raw).joined(separator: [UInt8(ascii: "&")]))
    }

    /// The value or the members of one name.
    private struct Node {
        private var value: String?
        private var members: [(name: String, node: Node)] = []
        private var isList = false

        mutating func add(_ path: ArraySlice<String>, _ value: String) throws(Failure) {
            guard let name = path.first else {
                guard self.value == nil, self.members.isEmpty else {
                    throw Failure(message: "a name occurs twice, or is used for a text and an object")
                }
                self.value = value
                return
            }
            guard self.value == nil else { throw Failure(message: "a name is used for a text and an object") }
            let isElement = name.isEmpty || Int(name) == self.members.count
            if self.members.isEmpty { self.isList = isElement && path.startIndex > 0 }
            if let index = self.members.firstIndex(where: { $0.name == name }), !name.isEmpty {
                return try self.members[index].node.add(path.dropFirst(), value)
            }
            guard !self.isList || isElement else {
                throw Failure(message: "a name is used for a list and an object, or a list has a gap")
            }
            guard self.isList || !name.isEmpty else {
                throw Failure(message: "a name is used for a list and an object")
            }
            var node = Node()
            try node.add(path.dropFirst(), value)
            self.members.append((name, node))
        }

        var json: JSON {
            if let value = self.value { return .string(value) }
            if self.isList { return .array(self.members.map(\.node.json)) }
            return .object(JSONObject(self.members.map { ($0.name, $0.node.json) }))
        }
    }

    /// Splits `a[b][c]` into `a`, `b`, `c`.
    private static func path(_ name: String) throws(Failure) -> [String] {
        let malformed = Failure(message: "a name's brackets do not match")
        let first = name.prefix { $0 != "[" && $0 != "]" }
        guard !first.isEmpty else { throw Failure(message: "a name is empty") }
        var path = [String(first)]
        var rest = name[first.endIndex...]
        while !rest.isEmpty {
            guard rest.first == "[", let end = rest.firstIndex(of: "]") else { throw malformed }
            let part = rest[rest.index(after: rest.startIndex)..<end]
            guard !part.contains("[") else { throw malformed }
            path.append(String(part))
            guard path.count <= Self.depthLimit else { throw Failure(message: "a name is nested too deeply") }
            rest = rest[rest.index(after: end)...]
        }
        return path
    }

    private static func decoded(_ bytes: ArraySlice<UInt8>) throws(Failure) -> String {
        var plain: [UInt8] = []
        plain.reserveCapacity(bytes.count)
        var index = bytes.startIndex
        while index < bytes.endIndex {
            switch bytes[index] {
            case UInt8(ascii: "+"): plain.append(.space)
            case UInt8(ascii: "%"):
                guard index + 2 < bytes.endIndex, let high = bytes[index + 1].hexadecimalValue,
                    let low = bytes[index + 2].hexadecimalValue
                else { throw Failure(message: "a percent-encoding is broken") }
                plain.append(high << 4 | low)
                index += 2
            case let byte: plain.append(byte)
            }
            index += 1
        }
        guard let text = String(validating: plain, as: UTF8.self), !plain.contains(0) else {
            throw Failure(message: "it is not UTF-8")
        }
        return text
    }
}
