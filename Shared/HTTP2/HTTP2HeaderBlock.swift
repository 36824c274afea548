/// The header fields of a request, kept as bytes so that the next request only replaces what differs.
///
/// Append the fields once, in the order of the wire (pseudo fields first); then for each request `rewind` and
/// `replace` what varies.
/// No String and no array is made per request.
public struct HTTP2HeaderBlock: Sendable {
    /// Where a field's name and value stand in `bytes`, and whether HPACK may remember it.
    struct Field: Sendable {
        var name: Range<Int>
        var value: Range<Int>
        var isIndexed: Bool
    }

    private(set) var bytes: [UInt8] = []
    private(set) var fields: [Field] = []
    /// Where the bytes end that every request shares.
    private var fixedEnd = 0

    public init() {
        self.bytes.reserveCapacity(1024)
        self.fields.reserveCapacity(16)
    }

    /// Adds a field that all requests share, or the place of one to be replaced.
    ///
    /// - Parameters:
    ///   - name: lower case.
    ///   - isIndexed: false for what differs each time or is secret: sent as a literal that is never indexed.
    ///     Source: RFC 7541 §6.2.3, §7.1.3
    /// - Returns: the place for `replace`.
    public mutating func append(_ name: String, _ value: String, isIndexed: Bool = true) -> Int {
        self.rewind()
        let start = self.bytes.count
        self.bytes.append(contentsOf: name.utf8)
        let middle = self.bytes.count
        self.bytes.append(contentsOf: value.utf8)
        self.fixedEnd = self.bytes.count
        self.fields.append(Field(name: start..<middle, value: middle..<self.fixedEnd, isIndexed: isIndexed))
        return self.fields.count - 1
    }

    /// Drops the values of the last request; each replaced field must be replaced again.
    public mutating func rewind() { self.bytes.removeSubrange(self.fixedEnd...) }

    /// Gives a field its value for this request, out of up to two parts.
    public mutating func replace(_ place: Int, _ first: some Sequence<UInt8>, _ second: String.UTF8View = "".utf8) {
        let start = self.bytes.count
        self.bytes.append(contentsOf: first)
        self.bytes.append(contentsOf: second)
        self.fields[place].value = start..<self.bytes.count
    }

    /// Whether HPACK may remember the field from now on.
    public mutating func setIndexed(_ place: Int, _ isIndexed: Bool) { self.fields[place].isIndexed = isIndexed }
}
