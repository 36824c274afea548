extension String {
    /// Returns true if both are the same UTF-8; `==` also treats canonically equivalent characters as equal.
    func hasSameBytes(as other: String) -> Bool { self.byteOrder(to: other) == 0 }

    /// Returns true if this text sorts before another one by the bytes of UTF-8.
    func precedesInBytes(_ other: String) -> Bool { self.byteOrder(to: other) < 0 }

    /// Returns a number below zero if this text sorts before another one by the bytes of UTF-8, zero for the same
    /// bytes, else one above zero.
    func byteOrder(to other: String) -> Int {
        let left = self.utf8.span
        let right = other.utf8.span
        for index in 0..<min(left.count, right.count) where left[index] != right[index] {
            return Int(left[index]) - Int(right[index])
        }
        return left.count - right.count
    }
}

/// A text that is compared by its bytes, as a key: two systems that write `é` in different ways mean different names.
struct ByteText: Hashable, Sendable {
    let text: String

    init(_ text: String) { self.text = text }

    static func == (left: ByteText, right: ByteText) -> Bool { left.text.hasSameBytes(as: right.text) }

    /// The same bytes have the same hash.
    func hash(into hasher: inout Hasher) { hasher.combine(self.text) }
}
