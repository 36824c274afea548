import CLua
public import Model
import Synchronization

/// A program in Lua 5.4 that maps an event to changes of orders: text with a function `map(event, record)`.
///
/// Each run begins with new globals, so nothing lasts from one event to the next, and the same event gives the same
/// result. A program has no clock, files or randomness, and cannot catch an error. Steps do not see the work of single
/// functions of C, so foreign programs run in a process whose processor time is bounded.
/// Owner: this object owns one state of Lua. Thread: any, one at a time. Bounded: by `Limits`.
public final class LuaProgram: Sendable {
    /// The bounds of a program and of each of its runs.
    public struct Limits: Hashable, Sendable {
        /// Bytes in use, the result included. Default 16 MiB.
        public var memory = 16 << 20
        /// Instructions of one run; 64 bytes that are allocated count as one. Default a million.
        public var steps: Int64 = 1_000_000
        /// Bytes of the result. Default 4 MiB.
        public var output = 4 << 20
        /// The depth of the result, which has a list, a change and its data around an order.
        public static let depth = 28

        public init() {}
    }

    /// The result of a run.
    public struct Result: Sendable {
        /// The value that `map` returned, in JSON; an empty array for nothing.
        public let text: [UInt8]
        /// Values that the tables of the library do not know, each with its table's name.
        public let unknown: [UnknownValue]
        /// The instructions of the run.
        public let steps: Int64

        /// True if the event names a trace, as a CloudEvent may.
        public let isTraced: Bool

        /// The value that `map` returned.
        public var value: JSON { (try? JSON(parsing: self.text, entries: .max)) ?? .null }
    }

    /// The names that a program may use without declaring them.
    public static let globals: Set<String> = [
        "assert", "constants", "error", "ipairs", "math", "null", "pairs", "rawequal", "rawlen", "select", "string",
        "table", "tonumber", "tostring", "type", "utf8", "waybill",
    ]

    /// The members of the tables among them. Functions of Lua that are not here are not offered.
    public static let members: [String: Set<String>] = [
        "math": [
            "abs", "ceil", "floor", "fmod", "huge", "max", "maxinteger", "min", "mininteger", "modf", "tointeger",
            "type", "ult",
        ],
        "string": [
            "byte", "char", "find", "format", "len", "lower", "match", "rep", "replace", "reverse", "sub", "upper",
        ],
        "table": ["concat", "insert", "remove", "sort", "unpack"],
        "utf8": ["char", "codepoint", "len", "offset"],
        "waybill": [
            "alias", "carrier", "drop_nulls", "integer", "list", "money", "number", "split", "status", "time",
            "url", "words",
        ],
        "waybill.status": ["adobe", "aftership", "commercetools", "easypost", "shopify"],
    ]

    /// The functions of texts in Lua 5.4 that are not offered, so that a call of one as a method is a mistake.
    public static let missingMethods: Set<String> = ["dump", "gmatch", "gsub", "pack", "packsize", "unpack"]

    private let state: Mutex<LuaState>

    /// Compiles a program, and runs it once without calling `map`.
    ///
    /// - Parameter minorUnits: those that `"minor"` means.
    /// - Throws: `LuaFailure` with the line: it is not a program, or has no function `map`.
    public init(
        _ text: [UInt8], limits: Limits = Limits(), minorUnits: MinorUnits = .iso4217
    ) throws(LuaFailure) {
        self.state = Mutex(try LuaState.loaded(text, limits, minorUnits))
    }

    /// Calls `map` with an event as the JSON text of another system.
    ///
    /// - Parameters:
    ///   - event: its first argument.
    ///   - record: its second argument.
    ///   - constants: the global of that name.
    ///   - parcels: those that are known, with nil for one that no order has.
    /// - Returns: nil for a text that `JSON(parsing:)` refuses, or reads only with mending.
    /// - Throws: `LuaFailure`, of kind `.unknownParcel` with the parcels if the program asks for one that is not known.
    public func map(
        text event: [UInt8], record: JSON, constants: JSON = .object(JSONObject()),
        parcels: [Parcel: ParcelOwner?] = [:]
    ) throws(LuaFailure) -> Result? {
        try self.state.withLock { (state) throws(LuaFailure) in
            try state.run(event, record, constants, parcels, depth: JSON.depthLimit, entries: JSON.entryLimit)
        }
    }

    /// Calls `map` with a value.
    public func map(
        _ event: JSON, record: JSON, constants: JSON = .object(JSONObject()), parcels: [Parcel: ParcelOwner?] = [:]
    ) throws(LuaFailure) -> Result {
        let result = try self.state.withLock { (state) throws(LuaFailure) in
            try state.run(event.serialized, record, constants, parcels, depth: Self.valueDepth, entries: .max)
        }
        guard let result else { throw LuaFailure(kind: .failed, message: "the event is nested too deeply") }
        return result
    }

    /// The depth of a value, which may have a document inside of a row.
    private static let valueDepth = 64

    /// The most bytes that were in use during the last run.
    public var peakBytes: Int { self.state.withLock { $0.peak } }
}

/// The reason why a program has no result.
public struct LuaFailure: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kind of failure.
    public enum Kind: Hashable, Sendable {
        /// The program is at fault.
        case failed
        /// It reached a limit.
        case limited
        /// Its result has a number with a fraction.
        case inexact
        /// It asks for a parcel that is not known.
        case unknownParcel
    }

    public let kind: Kind
    /// A sentence with line or path: `map.lua:3: …`, `result[1].data.status …`.
    public let message: String
    /// The parcels that it asks for, any of which is enough.
    public var parcels: [Parcel] = []

    public var description: String { self.message }
}

/// The order of a parcel, as programs get it.
public struct ParcelOwner: Hashable, Sendable {
    /// The order's identifier.
    public let order: String
    /// The fulfillment's identifier.
    public let fulfillment: String
    /// The brand, if the source's order types are named by brands.
    public let brand: String?

    public init(order: String, fulfillment: String, brand: String? = nil) {
        self.order = order
        self.fulfillment = fulfillment
        self.brand = brand
    }
}

/// A value that a table of the library does not know.
public struct UnknownValue: Hashable, Sendable {
    /// `status.shopify`, or the name of a table of the program's own
    public let table: String
    public let value: String

    public init(table: String, value: String) { (self.table, self.value) = (table, value) }
}

/// The version of the library that is in use: `5.4.4`.
public func luaVersion() -> String { unsafe String(cString: clua_version()) }

/// One state of Lua with its program. The only unsafe code of the room: pointers that C lends for a call.
@safe private struct LuaState: ~Copyable {
    private let raw: OpaquePointer
    private let notes: HostNotes

    private init(raw: OpaquePointer, _ notes: HostNotes) {
        unsafe self.raw = raw
        self.notes = notes
    }

    static func loaded(
        _ text: [UInt8], _ limits: LuaProgram.Limits, _ minorUnits: MinorUnits
    ) throws(LuaFailure) -> LuaState {
        var bounds = clua_limits(
            memory: limits.memory, steps: limits.steps, output: limits.output, depth: Int32(LuaProgram.Limits.depth))
        let host: clua_host = { context, function, arguments, count, result, text in
            guard let context = unsafe context, let arguments = unsafe arguments, let result = unsafe result,
                let text = unsafe text
            else { return }
            let notes = unsafe Unmanaged<HostNotes>.fromOpaque(context).takeUnretainedValue()
            var given = HostFunction.Arguments(repeating: .null)
            for index in 0..<min(Int(count), HostFunction.argumentLimit) {
                given[index] = unsafe HostValue(arguments[index])
            }
            let answer = HostFunction(rawValue: Int(function))?.call(given, notes)
            unsafe (answer ?? .error("there is no such function")).write(to: result, text)
        }
        guard let raw = unsafe clua_new(&bounds, host) else {
            throw LuaFailure(kind: .limited, message: "not enough memory for Lua")
        }
        let state = unsafe LuaState(raw: raw, HostNotes(minorUnits: minorUnits))
        let names = HostFunction.names
        let status = unsafe Self.lend(Array(LuaLibrary.text.utf8), LuaLibrary.resultShape, text) {
            var (library, shape, text) = unsafe ($0, $1, $2)
            return unsafe clua_load(
                raw, &library, names, &shape, &text, Unmanaged.passUnretained(state.notes).toOpaque())
        }
        if let failure = state.failure(status) { throw failure }
        return state
    }

    deinit { unsafe clua_free(self.raw) }

    var peak: Int { unsafe clua_peak(self.raw) }

    /// - Returns: nil if the event is no text that can be read.
    mutating func run(
        _ event: [UInt8], _ record: JSON, _ constants: JSON, _ parcels: [Parcel: ParcelOwner?], depth: Int,
        entries: Int
    ) throws(LuaFailure) -> LuaProgram.Result? {
        self.notes.unknown = []
        self.notes.parcels = parcels
        self.notes.missing = []
        let (raw, notes) = unsafe (self.raw, Unmanaged.passUnretained(self.notes).toOpaque())
        let status = unsafe Self.lend(event, record.serialized, constants.serialized) { event, record, constants in
            var input = unsafe clua_input(
                event: event, record: record, constants: constants, depth: Int32(depth), entries: entries)
            return unsafe clua_run(raw, notes, &input)
        }
        if UInt32(status) == clua_unread.rawValue { return nil }
        if let failure = self.failure(status) { throw failure }
        var count = 0
        let bytes = unsafe clua_output(self.raw, &count)
        return LuaProgram.Result(
            text: unsafe Array(UnsafeBufferPointer(start: bytes, count: count)), unknown: self.notes.unknown,
            steps: unsafe clua_steps(self.raw), isTraced: unsafe clua_is_traced(self.raw))
    }

    /// Hands three texts to C for a call.
    private static func lend(
        _ first: [UInt8], _ second: [UInt8], _ third: [UInt8],
        _ call: (clua_bytes, clua_bytes, clua_bytes) -> Int32
    ) -> Int32 {
        unsafe first.withUnsafeBytes { first in
            unsafe second.withUnsafeBytes { second in
                unsafe third.withUnsafeBytes { third in
                    func bytes(_ buffer: UnsafeRawBufferPointer) -> clua_bytes {
                        unsafe clua_bytes(bytes: buffer.baseAddress, count: buffer.count)
                    }
                    return unsafe call(bytes(first), bytes(second), bytes(third))
                }
            }
        }
    }

    private func failure(_ status: Int32) -> LuaFailure? {
        let kind: LuaFailure.Kind
        switch UInt32(status) {
        case clua_done.rawValue: return nil
        case clua_limited.rawValue: kind = .limited
        case clua_inexact.rawValue: kind = .inexact
        default: kind = self.notes.missing.isEmpty ? .failed : .unknownParcel
        }
        var count = 0
        let text = unsafe clua_message(self.raw, &count)
        let bytes = unsafe UnsafeBufferPointer(start: text, count: count)
        return LuaFailure(
            kind: kind, message: unsafe String(decoding: UnsafeRawBufferPointer(bytes), as: UTF8.self),
            parcels: kind == .unknownParcel ? self.notes.missing : [])
    }
}

/// The notes that functions of the host take during a run. Thread: that of the run.
final class HostNotes {
    /// The most values that are noted in a run.
    static let limit = 64

    let minorUnits: MinorUnits
    var unknown: [UnknownValue] = []
    /// The parcels that are known.
    var parcels: [Parcel: ParcelOwner?] = [:]
    /// Those that the program asked for in vain, which ended the run.
    var missing: [Parcel] = []

    init(minorUnits: MinorUnits) { self.minorUnits = minorUnits }
}
