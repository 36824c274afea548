import CLua
import Model

/// The functions of the library `waybill` that are computed here.
enum HostFunction: String, CaseIterable {
    case time, amount, integer, note

    static func call(_ number: Int, _ arguments: [HostValue], _ notes: HostNotes) -> HostValue {
        guard Self.allCases.indices.contains(number) else { return .error("there is no such function") }
        func argument(_ index: Int) -> HostValue { index < arguments.count ? arguments[index] : .null }
        switch Self.allCases[number] {
        case .time: return Moment.text(of: argument(0), argument(1).text)
        case .amount:
            return MoneyAmount.text(of: argument(0), currency: argument(1).text, unit: argument(2).text)
        case .integer: return MoneyAmount.integer(argument(0))
        case .note:
            guard notes.unknown.count < HostNotes.limit, let table = argument(0).text else { return .null }
            notes.unknown.append(UnknownValue(table: table, value: argument(1).shown))
            return .null
        }
    }
}

/// An argument or the result of a function that a program calls.
enum HostValue: Hashable {
    case null
    case integer(Int64)
    case text(String)
    /// A sentence for the author of the program, to which the line is added.
    case error(String)

    var text: String? { if case .text(let text) = self { text } else { nil } }

    /// The value for messages.
    var shown: String {
        switch self {
        case .null: "null"
        case .integer(let number): String(number)
        case .text(let text), .error(let text): text.utf8.count <= 60 ? text : "\(text.prefix(60))…"
        }
    }

    @unsafe init(_ value: clua_value) {
        switch unsafe UInt32(value.kind) {
        case clua_integer.rawValue: self = unsafe .integer(value.integer)
        case clua_text.rawValue:
            let bytes = unsafe UnsafeRawBufferPointer(start: value.text, count: value.count)
            self = .text(unsafe String(decoding: bytes, as: UTF8.self))
        default: self = .null
        }
    }

    /// - Parameter text: has room for `CLUA_TEXT` bytes.
    @unsafe func write(to result: UnsafeMutablePointer<clua_value>, _ text: UnsafeMutablePointer<CChar>) {
        func put(_ string: String, _ kind: clua_kind) {
            let bytes = Array(string.utf8.prefix(Int(CLUA_TEXT)))
            for (index, byte) in bytes.enumerated() { unsafe text[index] = CChar(bitPattern: byte) }
            unsafe result.pointee.kind = Int32(kind.rawValue)
            unsafe result.pointee.count = bytes.count
        }
        switch self {
        case .null: unsafe result.pointee.kind = Int32(clua_nil.rawValue)
        case .integer(let number):
            unsafe result.pointee.kind = Int32(clua_integer.rawValue)
            unsafe result.pointee.integer = number
        case .text(let string): put(string, clua_text)
        case .error(let string): put(string, clua_error)
        }
    }
}
