/// The 64-bit hash FNV-1a, byte by byte: the same in every process, and no defense against crafted collisions.
///
/// Source: FNV-1a with its published offset basis and prime
public struct FNV1a: Sendable {
    public private(set) var value: UInt64 = 0xCBF2_9CE4_8422_2325

    public init() {}

    public mutating func combine(_ byte: UInt8) { self.value = (self.value ^ UInt64(byte)) &* 0x0000_0100_0000_01B3 }

    public mutating func combine(_ bytes: some Sequence<UInt8>) { for byte in bytes { self.combine(byte) } }
}
