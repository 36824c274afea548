/// Base 64 with the alphabet for URLs and no padding, as tokens require it.
///
/// Source: RFC 4648 §5, RFC 7515 §2
public enum Base64URL {
    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)

    /// Returns four characters for every three bytes, the rest without padding.
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

    private static let values = {
        var values = [UInt8](repeating: 0xFF, count: 256)
        for (value, character) in Self.alphabet.enumerated() { values[Int(character)] = UInt8(value) }
        return values
    }()

    /// Returns the bytes that `encode` turned into this text; nil for any other text.
    public static func decode(_ text: [UInt8]) -> [UInt8]? {
        guard text.count % 4 != 1 else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count * 3 / 4)
        var bits: UInt32 = 0
        var count: UInt32 = 0
        for character in text {
            let value = self.values[Int(character)]
            guard value < 64 else { return nil }
            bits = bits << 6 | UInt32(value)
            count += 6
            if count >= 8 {
                count -= 8
                bytes.append(UInt8(truncatingIfNeeded: bits >> count))
                bits &= (1 << count) - 1
            }
        }
        // The remaining bits of the last character encode nothing, so they must be zero.
        return bits == 0 ? bytes : nil
    }
}
