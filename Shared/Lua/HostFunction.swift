import CLua
import Model

/// The functions of the library `waybill` that are computed here.
enum HostFunction: String, CaseIterable {
    case time, amount, integer, number, compare, url, note, owner

    static func call(_ number: Int, _ arguments: [HostValue], _ notes: HostNotes) -> HostValue {
        guard Self.allCases.indices.contains(number) else { return .error("there is no such function") }
        func argument(_ index: Int) -> HostValue { index < arguments.count ? arguments[index] : .null }
        switch Self.allCases[number] {
        case .time: return Moment.text(of: argument(0), argument(1).text)
        case .amount:
            return MoneyAmount.text(
                of: argument(0), currency: argument(1).text, unit: argument(2).text, marks: argument(3),
                minorUnits: notes.minorUnits)
        case .integer: return DecimalNumber.integer(argument(0))
        case .number: return DecimalNumber.value(of: argument(0), marks: argument(1), form: argument(2))
        case .compare: return DecimalNumber.compare(argument(0), argument(1))
        case .url:
            guard let link = argument(0).text.flatMap({ WebLink.mended($0) }), link.utf8.count <= CLUA_TEXT else {
                return .null
            }
            return .text(link)
        case .owner:
            return Self.owner(argument(0).text, number: argument(1), [argument(2), argument(3)], notes)
        case .note:
            guard notes.unknown.count < HostNotes.limit, let table = argument(0).text else { return .null }
            notes.unknown.append(UnknownValue(table: table, value: argument(1).shown))
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
        case .decimal(let string): put(string, clua_decimal)
        case .error(let string): put(string, clua_error)
        }
    }
}
