import CCrypto

/// HMAC with SHA-256.
///
/// Source: RFC 2104, RFC 4231
public enum HMACSHA256 {
    /// Returns the 32 bytes of the code.
    /// - Parameter key: a key of any length; one longer than 64 bytes is hashed first, as the standard requires.
    public static func authenticate(_ message: [UInt8], key: [UInt8]) -> [UInt8] {
        var inner = [UInt8](repeating: 0x36, count: Self.blockSize)
        var outer = [UInt8](repeating: 0x5C, count: Self.blockSize)
        let fitting = key.count > Self.blockSize ? SHA256.digest(key) : key
        for (index, byte) in fitting.enumerated() {
            inner[index] ^= byte
            outer[index] ^= byte
        }
        return SHA256.digest(outer + SHA256.digest(inner + message))
    }

    /// Bytes of one block of SHA-256. Source: FIPS 180-4 §1
    private static let blockSize = 64
}
