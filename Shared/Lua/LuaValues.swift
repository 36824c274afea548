import Model

/// Values for a program, in the form of `CLua.h`.
///
/// An integer of 64 bits stays one; any other number is its text, so that nothing is lost to binary fractions. Where an
/// order has a number, `LuaOutput` makes the number of this text again.
struct LuaInput {
    private(set) var bytes: [UInt8] = []

    init() { self.bytes.reserveCapacity(8192) }

    mutating func append(_ value: JSON) {
        switch value {
        case .null: self.bytes.append(UInt8(ascii: "n"))
        case .bool(let flag): self.bytes.append(flag ? UInt8(ascii: "t") : UInt8(ascii: "f"))
        case .number(let number):
            guard let integer = number.integer else { return self.append(.string(number.text)) }
            self.bytes.append(UInt8(ascii: "i"))
            self.append(UInt64(bitPattern: integer), count: 8)
        case .string(let text):
            self.bytes.append(UInt8(ascii: "s"))
            self.append(text)
        case .array(let elements):
            self.bytes.append(UInt8(ascii: "a"))
            self.append(UInt64(elements.count), count: 4)
            for element in elements { self.append(element) }
        case .object(let object):
            self.bytes.append(UInt8(ascii: "o"))
            self.append(UInt64(object.members.count), count: 4)
            for member in object.members {
                self.append(member.name)
                self.append(member.value)
            }
        }
    }

    private mutating func append(_ text: String) {
        self.append(UInt64(text.utf8.count), count: 4)
        self.bytes.append(contentsOf: text.utf8)
    }

    /// - Parameter count: of its bytes, the lowest first.
    private mutating func append(_ number: UInt64, count: Int) {
        unsafe withUnsafeBytes(of: number.littleEndian) { unsafe self.bytes.append(contentsOf: $0.prefix(count)) }
    }
}

/// The result of a program, in the form of `CLua.h`: a list of changes.
///
/// An empty table is an array where an order has one, or a list of changes is expected; elsewhere it is an object.
@safe struct LuaOutput {
    /// The place of a value in the result.
    private enum Place {
        case changes, change, owns
        case order(OrderPlace)
        case elsewhere
    }

    private let bytes: UnsafeBufferPointer<UInt8>
    private var position = 0

    /// - Parameter bytes: valid as long as this value is used; written by `CLua`, which bounds the depth.
    init(_ bytes: UnsafeBufferPointer<UInt8>) { unsafe self.bytes = bytes }

    mutating func result() throws(LuaFailure) -> JSON { try self.value(.changes, "result") }

    private mutating func value(_ place: Place, _ name: String) throws(LuaFailure) -> JSON {
        switch self.byte() {
        case UInt8(ascii: "n"): return .null
        case UInt8(ascii: "t"): return .bool(true)
        case UInt8(ascii: "f"): return .bool(false)
        case UInt8(ascii: "i"): return .integer(Int64(bitPattern: self.number(8)))
        case UInt8(ascii: "d"): return try self.number(try self.text(of: name), name)
        case UInt8(ascii: "s"):
            let text = try self.text(of: name)
            if case .order(let place) = place, place.isNumber, let number = JSONNumber(text) { return .number(number) }
            return .string(text)
        case UInt8(ascii: "e"):
            switch place {
            case .changes, .owns: return .array([])
            case .order(let place) where place.isArray: return .array([])
            case .change, .order, .elsewhere: return .object(JSONObject())
            }
        case UInt8(ascii: "a"):
            let inside: Place =
                switch place {
                case .changes: .change
                case .order(let place): place.element.map { .order($0) } ?? .elsewhere
                case .change, .owns, .elsewhere: .elsewhere
                }
            let count = Int(self.number(4))
            var elements: [JSON] = []
            elements.reserveCapacity(count)
            for _ in 0..<count { elements.append(try self.value(inside, name)) }
            return .array(elements)
        default:
            let count = Int(self.number(4))
            var members: [JSONObject.Member] = []
            members.reserveCapacity(count)
            for _ in 0..<count {
                let member = try self.text(of: name)
                members.append(.init(name: member, value: try self.value(self.inside(place, member), member)))
            }
            var duplicate: String?
            return .object(JSONObject(unsorted: members, duplicate: &duplicate))
        }
    }

    private func number(_ text: String, _ name: String) throws(LuaFailure) -> JSON {
        guard let number = JSONNumber(text) else {
            throw LuaFailure(kind: .failed, message: "\(name) of the result is not a number")
        }
        return .number(number)
    }

    private func inside(_ place: Place, _ member: String) -> Place {
        switch place {
        case .change: member == "data" ? .order(.data) : .elsewhere
        case .order(let place): place.member(member).map { .order($0) } ?? (member == "owns" ? .owns : .elsewhere)
        case .changes, .owns, .elsewhere: .elsewhere
        }
    }

    private mutating func byte() -> UInt8 {
        defer { self.position += 1 }
        return unsafe self.bytes[self.position]
    }

    private mutating func number(_ count: Int) -> UInt64 {
        var number: UInt64 = 0
        for index in 0..<count { number |= UInt64(self.byte()) &<< UInt64(8 * index) }
        return number
    }

    private mutating func text(of name: String) throws(LuaFailure) -> String {
        let count = Int(self.number(4))
        defer { self.position += count }
        let bytes = unsafe UnsafeBufferPointer(rebasing: self.bytes[self.position..<self.position + count])
        guard let text = unsafe String(validating: bytes, as: UTF8.self) else {
            throw LuaFailure(kind: .failed, message: "\(name) of the result is not UTF-8")
        }
        return text
    }
}
