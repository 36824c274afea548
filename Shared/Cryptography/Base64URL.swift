/// Base 64 with the alphabet for URLs and no padding, as tokens want it.
///
/// Source: RFC 4648 §5, RFC 7515 §2
public enum Base64URL {
    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)

    /// Four characters for three bytes, the rest without padding.
    public static func encode(_ bytes: [UInt8]) -> String {
        var characters: [UInt8] = []
        characters.reserveCapacity((bytes.count * 4 + 2) / 3)
        var bits: UInt32 = 0
        var count = 0
        for byte in bytes {
            bits = bits << 8 | UInt32(byte)
            count += 8
            while count >= 6 {
                count -= 6
                characters.append(self.alphabet[Int(bits >> UInt32(count) & 0x3F)])
            }
            bits &= (1 << UInt32(count)) - 1
        }
        if count > 0 { characters.append(self.alphabet[Int(bits << UInt32(6 - count) & 0x3F)]) }
        return String(decoding: characters, as: UTF8.self)
    }
}
