/// Writes values as bytes, for requests and answers.
public struct SandboxWriter {
    public private(set) var bytes: [UInt8] = []

    public init() {}

    public mutating func add(_ value: UInt8) { self.bytes.append(value) }

    public mutating func add(_ value: Bool) { self.bytes.append(value ? 1 : 0) }

    public mutating func add(_ value: Int64) {
        for shift in stride(from: 0, to: 64, by: 8) { self.bytes.append(UInt8(truncatingIfNeeded: value >> shift)) }
    }

    public mutating func add(_ value: [UInt8]) {
        self.add(Int64(value.count))
        self.bytes += value
    }

    public mutating func add(_ value: String) { self.add(Array(value.utf8)) }

    /// A value that may be missing.
    public mutating func add<Value>(_ value: Value?, _ body: (inout SandboxWriter, Value) -> Void) {
        self.add(value != nil)
        if let value { body(&self, value) }
    }

    public mutating func add<Values: Collection>(
        _ values: Values, _ body: (inout SandboxWriter, Values.Element) -> Void
    ) {
        self.add(Int64(values.count))
        for value in values { body(&self, value) }
    }
}

/// Bytes that do not have the form that was agreed.
public struct SandboxFormatError: Error, Hashable {
    public init() {}
}

/// Reads what `SandboxWriter` has written. Nothing is read beyond the end, and no count is believed.
public struct SandboxReader {
    private let bytes: [UInt8]
    private var at = 0

    public init(_ bytes: [UInt8]) { self.bytes = bytes }

    public var isAtEnd: Bool { self.at == self.bytes.count }

    public mutating func byte() throws(SandboxFormatError) -> UInt8 {
        guard self.at < self.bytes.count else { throw SandboxFormatError() }
        defer { self.at += 1 }
        return self.bytes[self.at]
    }

    public mutating func flag() throws(SandboxFormatError) -> Bool { try self.byte() != 0 }

    public mutating func integer() throws(SandboxFormatError) -> Int64 {
        guard self.bytes.count - self.at >= 8 else { throw SandboxFormatError() }
        var value: UInt64 = 0
        for index in 0..<8 { value |= UInt64(self.bytes[self.at + index]) << (8 * UInt64(index)) }
        self.at += 8
        return Int64(bitPattern: value)
    }

    public mutating func data() throws(SandboxFormatError) -> [UInt8] {
        let count = try self.integer()
        guard count >= 0, count <= self.bytes.count - self.at else { throw SandboxFormatError() }
        defer { self.at += Int(count) }
        return Array(self.bytes[self.at..<self.at + Int(count)])
    }

    /// Returns a text; bytes that are not UTF-8 are replaced.
    public mutating func text() throws(SandboxFormatError) -> String {
        String(decoding: try self.data(), as: UTF8.self)
    }

    /// Reads a value that may be missing.
    public mutating func optional<Value>(
        _ body: (inout SandboxReader) throws(SandboxFormatError) -> Value
    ) throws(SandboxFormatError) -> Value? { try self.flag() ? try body(&self) : nil }

    public mutating func optionalData() throws(SandboxFormatError) -> [UInt8]? {
        try self.flag() ? try self.data() : nil
    }

    public mutating func optionalText() throws(SandboxFormatError) -> String? {
        try self.flag() ? try self.text() : nil
    }

    /// - Parameter limit: the most values.
    public mutating func list<Value>(
        limit: Int, _ body: (inout SandboxReader) throws(SandboxFormatError) -> Value
    ) throws(SandboxFormatError) -> [Value] {
        let count = try self.integer()
        guard count >= 0, count <= limit else { throw SandboxFormatError() }
        var values: [Value] = []
        for _ in 0..<count { values.append(try body(&self)) }
        return values
    }
}
