import CLua
import Model

/// The functions of the library `waybill` that are computed here.
enum HostFunction: Int, CaseIterable {
    case time, amount, integer, number, compare, url, note, owner

    /// Their names in the order of their numbers.
    static var names: String { Self.allCases.map { "\($0)" }.joined(separator: " ") }

    /// The most arguments.
    static let argumentLimit = 4
    typealias Arguments = InlineArray<4, HostValue>

    func call(_ arguments: Arguments, _ notes: HostNotes) -> HostValue {
        switch self {
        case .time: return Moment.text(of: arguments[0], arguments[1].text)
        case .amount:
            return MoneyAmount.text(
                of: arguments[0], currency: arguments[1].text, unit: arguments[2].text, marks: arguments[3],
                minorUnits: notes.minorUnits)
        case .integer: return DecimalNumber.integer(arguments[0])
        case .number: return DecimalNumber.value(of: arguments[0], marks: arguments[1], form: arguments[2])
        case .compare: return DecimalNumber.compare(arguments[0], arguments[1])
        case .url:
            guard let link = arguments[0].text.flatMap({ WebLink.mended($0) }), link.utf8.count <= CLUA_TEXT else {
                return .null
            }
            return .text(link)
        case .owner:
            return Self.owner(arguments[0].text, number: arguments[1], [arguments[2], arguments[3]], notes)
        case .note:
            guard notes.unknown.count < HostNotes.limit, let table = arguments[0].text else { return .null }
            notes.unknown.append(UnknownValue(table: table, value: arguments[1].shown))
            return .null
        }
    }
}

extension HostFunction {
    /// Returns a fact about the order of a parcel.
    ///
    /// - Parameters:
    ///   - fact: `order`, `fulfillment` or `brand`.
    ///   - carriers: names of one carrier.
    private static func owner(
        _ fact: String?, number: HostValue, _ carriers: [HostValue], _ notes: HostNotes
    ) -> HostValue {
        let number = if case .integer(let digits) = number { String(digits) } else { number.text ?? "" }
        var parcels: [Parcel] = []
        for carrier in carriers {
            guard let parcel = Parcel(carrier: carrier.text ?? "", number: number), !parcels.contains(parcel) else {
                continue
            }
            parcels.append(parcel)
        }
        guard let first = parcels.first else { return .error("alias: the tracking number must be a text") }
        for case let owner?? in parcels.map({ notes.parcels[$0] }) {
            switch fact {
            case "order": return .text(owner.order)
            case "fulfillment": return .text(owner.fulfillment)
            default: return owner.brand.map { .text($0) } ?? .null
            }
        }
        notes.missing = parcels
        return .error("alias: no order has the parcel \(first)")
    }
}

/// An argument or the result of a function that a program calls.
enum HostValue: Hashable {
    case null
    case integer(Int64)
    case text(String)
    /// The text of a number with decimal places, or of one that is longer than 64 bits.
    case decimal(String)
    /// A sentence for the author of the program, to which the line is added.
    case error(String)

    var text: String? { if case .text(let text) = self { text } else { nil } }

    /// The value for messages.
    var shown: String {
        switch self {
        case .null: "null"
        case .integer(let number): String(number)
        case .text(let text), .decimal(let text), .error(let text): text.utf8.count <= 60 ? text : "\(text.prefix(60))…"
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
            var count = 0
            for byte in string.utf8.prefix(Int(CLUA_TEXT)) {
                unsafe text[count] = CChar(bitPattern: byte)
                count += 1
            }
            unsafe result.pointee.kind = Int32(kind.rawValue)
            unsafe result.pointee.count = count
        }
        switch self {
        case .null: unsafe result.pointee.kind = Int32(clua_nil.rawValue)
        case .integer(let number):
            unsafe result.pointee.kind = Int32(clua_integer.rawValue)
            unsafe result.pointee.integer = number
        case .text(let string): put(string, clua_text)
        case .decimal(let string): put(string, clua_decimal)
        case .error(let string): put(string, clua_error)
        }
    }
}
