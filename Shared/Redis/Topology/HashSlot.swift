/// The slot, of the 16,384 slots of a cluster, to which a key belongs.
///
/// Source: Redis cluster specification, "Key distribution model", "Hash tags" and Appendix A (CRC16/XMODEM)
public enum HashSlot {
    /// Slots of a cluster.
    public static let count = 16384
    /// Bytes of each of `tags`.
    public static let tagLength = 3
    /// A hash tag for each slot, concatenated in the order of the slots: three letters and digits each.
    public static let tags: String = {
        let characters = Array("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz".utf8)
        var tags = [UInt8](repeating: characters[0], count: Self.count * Self.tagLength)
        var isFound = [Bool](repeating: false, count: Self.count)
        for first in characters {
            for second in characters {
                let begun = Self.crc([first, second])
                for third in characters {
                    let slot = Int(Self.crc(begun, third)) % Self.count
                    guard !isFound[slot] else { continue }
                    isFound[slot] = true
                    tags.replaceSubrange(slot * 3..<slot * 3 + 3, with: [first, second, third])
                }
            }
        }
        return String(decoding: tags, as: UTF8.self)
    }()

    private static let polynomial: UInt16 = 0x1021
    private static let table: [UInt16] = (0..<256).map { byte in
        var crc = UInt16(byte) << 8
        for _ in 0..<8 { crc = crc & 0x8000 == 0 ? crc << 1 : crc << 1 ^ Self.polynomial }
        return crc
    }

    /// Returns the slot of a key: computed from the text between its first `{` and the next `}` if that is not empty,
    /// else from all of it.
    public static func of(_ key: some BidirectionalCollection<UInt8>) -> Int {
        let whole = key[...]
        guard let open = whole.firstIndex(of: UInt8(ascii: "{")) else { return Int(Self.crc(whole)) % Self.count }
        let behind = whole[whole.index(after: open)...]
        guard let close = behind.firstIndex(of: UInt8(ascii: "}")), close != behind.startIndex else {
            return Int(Self.crc(whole)) % Self.count
        }
        return Int(Self.crc(behind[..<close])) % Self.count
    }

    /// Returns the checksum: width 16, polynomial 0x1021, starts at 0, nothing reflected.
    static func crc(_ bytes: some Sequence<UInt8>) -> UInt16 {
        var crc: UInt16 = 0
        // The index is a byte, the table has 256 elements.
        for byte in bytes { crc = Self.crc(crc, byte) }
        return crc
    }

    private static func crc(_ crc: UInt16, _ byte: UInt8) -> UInt16 {
        crc << 8 ^ Self.table[Int(UInt8(crc >> 8) ^ byte)]
    }
}
