/// The header fields of a request, kept as bytes so that the next request only replaces the fields that differ.
///
/// Append the fields once, in the order of the wire (pseudo-header fields first); then for each request `replace` the
/// fields that differ from the last request. The others keep their values. No String or array is made per request.
public struct HTTP2HeaderBlock: Sendable {
    /// The ranges of a field's name and value in `bytes`, and the permission for HPACK to index it.
    struct Field: Sendable {
        var name: Range<Int>
        var value: Range<Int>
        /// The end of the space in which a value can grow in place.
        var end: Int
        var isIndexed: Bool
    }

    private(set) var bytes: [UInt8] = []
    private(set) var fields: [Field] = []

    public init() {
        self.bytes.reserveCapacity(1024)
        self.fields.reserveCapacity(16)
    }

    /// Adds a field that all requests share, or a placeholder for a field to replace.
    ///
    /// - Parameters:
    ///   - name: lower case.
    ///   - isIndexed: false for a value that differs each time or is secret: it is sent as a never-indexed literal.
    ///     Source: RFC 7541 §6.2.3, §7.1.3
    /// - Returns: the place for `replace`.
    public mutating func append(_ name: String, _ value: String, isIndexed: Bool = true) -> Int {
        let start = self.bytes.count
        self.bytes.append(contentsOf: name.utf8)
        let middle = self.bytes.count
        self.bytes.append(contentsOf: value.utf8)
        let end = self.bytes.count
        self.fields.append(Field(name: start..<middle, value: middle..<end, end: end, isIndexed: isIndexed))
        return self.fields.count - 1
    }

    /// Sets a field's value, made of up to two parts, from this call on.
    public mutating func replace(_ place: Int, _ first: String, _ second: String = "") {
        let start = self.makeRoom(place, first.utf8.count + second.utf8.count)
        self.write(first, at: start)
        self.write(second, at: start + first.utf8.count)
    }

    /// Sets a field's value from this call on.
    public mutating func replace(_ place: Int, _ value: [UInt8]) {
        let start = self.makeRoom(place, value.count)
        unsafe value.withUnsafeBytes { unsafe self.write($0, at: start) }
    }

    /// Allows or forbids HPACK to index the field, from this call on.
    public mutating func setIndexed(_ place: Int, _ isIndexed: Bool) { self.fields[place].isIndexed = isIndexed }

    /// Returns the start of the space for a value of this many bytes: the field's present space or, if that is too
    /// small, new space at the end of `bytes`, which the field then keeps.
    private mutating func makeRoom(_ place: Int, _ count: Int) -> Int {
        var start = self.fields[place].value.lowerBound
        if self.fields[place].end - start < count {
            start = self.bytes.count
            // Values grow rarely and by little, so the unused space stays small.
            self.bytes.append(contentsOf: repeatElement(0, count: count + 32))
            self.fields[place].end = self.bytes.count
        }
        self.fields[place].value = start..<start + count
        return start
    }

    private mutating func write(_ text: String, at start: Int) {
        var text = text
        // A bridged String becomes a native one first.
        text.withUTF8 { unsafe self.write(UnsafeRawBufferPointer($0), at: start) }
    }

    private mutating func write(_ source: UnsafeRawBufferPointer, at start: Int) {
        unsafe self.bytes.withUnsafeMutableBytes { bytes in
            unsafe UnsafeMutableRawBufferPointer(rebasing: bytes[start..<start + source.count])
                .copyMemory(from: source)
        }
    }
}
