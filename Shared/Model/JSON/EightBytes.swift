/// Eight bytes of a text, compared together.
///
/// Results have the top bit of each byte that matches, and none if no byte does. Above the lowest match further bits
/// may be set, so `trailingZeroBitCount / 8` of a result is the index of the first match.
struct EightBytes {
    private static let ones: UInt64 = 0x0101_0101_0101_0101
    private let word: UInt64

    /// - Parameter loaded: the bytes as they are in memory.
    @inline(__always)
    init(_ loaded: UInt64) { self.word = UInt64(littleEndian: loaded) }

    /// Returns the bytes that equal this one.
    @inline(__always)
    func equal(_ byte: UInt8) -> UInt64 {
        let difference = self.word ^ (Self.ones &* UInt64(byte))
        return (difference &- Self.ones) & ~difference & (Self.ones &* 0x80)
    }

    /// Returns the bytes that are less than this one, which is at most 0x80.
    @inline(__always)
    func below(_ byte: UInt8) -> UInt64 {
        (self.word &- Self.ones &* UInt64(byte)) & ~self.word & (Self.ones &* 0x80)
    }
}
