/// The checksum of ZIP entries and PNG chunks, independent of the zlib that Shared/Packaging uses.
///
/// Source: APPNOTE.TXT §4.4.7, PNG (ISO/IEC 15948) §5.5: polynomial 0xEDB88320, reflected
public enum CRC32 {
    private static let table: [UInt32] = (0..<256).map { index in
        (0..<8).reduce(UInt32(index)) { value, _ in value & 1 == 1 ? value >> 1 ^ 0xEDB8_8320 : value >> 1 }
    }

    /// Returns the checksum of all bytes.
    public static func checksum(_ bytes: some Sequence<UInt8>) -> UInt32 {
        ~bytes.reduce(UInt32.max) { $0 >> 8 ^ Self.table[Int(($0 ^ UInt32($1)) & 0xFF)] }
    }
}
