import Model

/// Lines and columns of the values of a JSON text, by their paths as the validator writes them: `$.lineItems[0].price`.
///
/// Made on demand, of texts that parse.
struct JSONPlaces {
    /// A line and a column for people, both counted from 1; columns count characters as editors do.
    struct Place: Hashable, Sendable {
        let line: Int
        let column: Int
    }

    private var offsets: [String: Int] = [:]
    private let bytes: [UInt8]
    private var position = 0

    /// - Parameter bytes: a text that `JSON(parsing:)` takes, which also bounds its depth.
    init(_ bytes: [UInt8]) {
        self.bytes = bytes
        self.value("$")
    }

    /// Returns the place of a value; if it is missing, that of the nearest enclosing value.
    func place(of path: String) -> Place {
        var path = path[...]
        while !path.isEmpty {
            if let offset = self.offsets[String(path)] { return Self.place(of: offset, in: self.bytes) }
            guard let end = path.lastIndex(where: { $0 == "." || $0 == "[" }) else { break }
            path = path[..<end]
        }
        return Self.place(of: self.offsets["$"] ?? 0, in: self.bytes)
    }

    /// Returns the place of a byte.
    static func place(of offset: Int, in bytes: [UInt8]) -> Place {
        let before = bytes.prefix(max(0, offset))
        let line = before.count { $0 == UInt8(ascii: "\n") } + 1
        let start = before.lastIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? 0
        return Place(line: line, column: String(decoding: before[start...], as: UTF8.self).count + 1)
    }

    private var current: UInt8? { self.position < self.bytes.count ? self.bytes[self.position] : nil }

    private mutating func skipSpace() {
        while let byte = self.current, byte <= 0x20 { self.position += 1 }
    }

    private mutating func value(_ path: String) {
        self.skipSpace()
        self.offsets[path] = self.position
        switch self.current {
        case UInt8(ascii: "{"):
            self.elements(endingWith: UInt8(ascii: "}")) { places, _ in
                let name = places.string()
                places.skipSpace()
                places.position += 1
                places.value("\(path).\(name)")
            }
        case UInt8(ascii: "["):
            self.elements(endingWith: UInt8(ascii: "]")) { places, index in places.value("\(path)[\(index)]") }
        case UInt8(ascii: "\""): _ = self.string()
        default: while let byte = self.current, !Self.ends.contains(byte) { self.position += 1 }
        }
    }

    /// The bytes that may follow a number or a word.
    private static let ends = Set(",]} \n\r\t".utf8)

    private mutating func elements(endingWith end: UInt8, _ element: (inout JSONPlaces, Int) -> Void) {
        self.position += 1
        var index = 0
        while true {
            self.skipSpace()
            guard let byte = self.current, byte != end else { break }
            if byte == UInt8(ascii: ",") {
                self.position += 1
                self.skipSpace()
            }
            let before = self.position
            element(&self, index)
            // In a text that does not parse, a closing bracket of the wrong kind is not a value.
            guard self.position > before else { break }
            index += 1
        }
        self.position += 1
    }

    /// Reads a string as it is written. Escapes in names are rare, and no name that the validator knows has one.
    private mutating func string() -> String {
        self.skipSpace()
        self.position += 1
        let start = self.position
        while let byte = self.current, byte != UInt8(ascii: "\"") {
            self.position += byte == UInt8(ascii: "\\") ? 2 : 1
        }
        defer { self.position += 1 }
        return String(decoding: self.bytes[start..<min(self.position, self.bytes.count)], as: UTF8.self)
    }
}
