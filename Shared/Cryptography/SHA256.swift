import CCrypto

/// SHA-256 of bytes in memory.
///
/// Source: FIPS 180-4
public enum SHA256 {
    /// Bytes of a digest.
    public static let byteCount = 32

    /// Returns the 32 bytes of the digest.
    public static func digest(_ bytes: [UInt8]) -> [UInt8] {
        unsafe [UInt8](unsafeUninitializedCapacity: Self.byteCount) { output, count in
            let done = unsafe bytes.withUnsafeBytes { input in
                unsafe DigestAlgorithm.sha256.digest(input, into: output)
            }
            // Only a lack of memory can cause this; outside input has no part in it.
            precondition(done, "SHA-256 of \(bytes.count) bytes failed")
            count = Self.byteCount
        }
    }

    /// Returns the digest in 64 lower-case hexadecimal digits.
    public static func hex(_ bytes: [UInt8]) -> String {
        String(decoding: Hexadecimal.digits(Self.digest(bytes)), as: UTF8.self)
    }
}

/// SHA-256 as libcrypto's provider offers it, fetched once.
///
/// The implicit fetch behind `EVP_sha256()` costs 0.2 microseconds a call and takes a lock that all threads share.
@safe
final class DigestAlgorithm: @unchecked Sendable {  // tidy: a fetched EVP_MD never changes (EVP_MD_fetch(3))
    /// Lives as long as the process.
    static let sha256 = DigestAlgorithm()

    /// nil if libcrypto's default provider is missing; then `EVP_sha256()` is used.
    private let fetched: OpaquePointer?

    private init() { unsafe self.fetched = EVP_MD_fetch(nil, "SHA256", nil) }

    deinit { unsafe EVP_MD_free(self.fetched) }

    /// The algorithm for calls that take one.
    var raw: OpaquePointer? { unsafe self.fetched ?? EVP_sha256() }

    /// - Parameter output: has room for 32 bytes.
    func digest(_ input: UnsafeRawBufferPointer, into output: UnsafeMutableBufferPointer<UInt8>) -> Bool {
        var length: UInt32 = 0
        let done = unsafe EVP_Digest(input.baseAddress, input.count, output.baseAddress, &length, self.raw, nil)
        return done == 1 && length == SHA256.byteCount
    }
}

/// Bytes as lower-case hexadecimal digits.
public enum Hexadecimal {
    /// Returns two ASCII digits for each byte.
    public static func digits(_ bytes: [UInt8]) -> [UInt8] {
        var digits: [UInt8] = []
        digits.reserveCapacity(bytes.count * 2)
        for byte in bytes {
            digits.append(self.digit(byte >> 4))
            digits.append(self.digit(byte & 0x0F))
        }
        return digits
    }

    /// Returns the bytes of hexadecimal digits in lower case; nil for any other text.
    public static func bytes(_ text: String) -> [UInt8]? {
        let digits = Array(text.utf8)
        guard digits.count.isMultiple(of: 2) else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(digits.count / 2)
        for index in stride(from: 0, to: digits.count, by: 2) {
            guard let high = Self.value(digits[index]), let low = Self.value(digits[index + 1]) else { return nil }
            bytes.append(high << 4 | low)
        }
        return bytes
    }

    private static func value(_ digit: UInt8) -> UInt8? {
        switch digit {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - UInt8(ascii: "a") + 10
        default: nil
        }
    }

    /// - Parameter value: below 16.
    private static func digit(_ value: UInt8) -> UInt8 {
        value + (value < 10 ? UInt8(ascii: "0") : UInt8(ascii: "a") - 10)
    }
}

/// MD5 of bytes in memory, for names that others make with it; it protects nothing.
///
/// Source: RFC 1321
public enum MD5 {
    /// Returns the 16 bytes of the digest; nil where libcrypto's policy has no MD5.
    public static func digest(_ bytes: [UInt8]) -> [UInt8]? {
        var isDone = false
        let digest = unsafe [UInt8](unsafeUninitializedCapacity: 16) { output, count in
            var length: UInt32 = 0
            isDone = unsafe bytes.withUnsafeBytes { input in
                unsafe EVP_Digest(input.baseAddress, input.count, output.baseAddress, &length, EVP_md5(), nil) == 1
            }
            count = isDone ? 16 : 0
        }
        return isDone ? digest : nil
    }
}

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

/// Returns true if two byte strings are equal, in a time that does not depend on the place of a difference.
///
/// The lengths are not secret: if they differ, the answer is immediate.
/// Source: openssl CRYPTO_memcmp(3)
public func constantTimeEqual(_ a: [UInt8], _ b: [UInt8]) -> Bool {
    guard a.count == b.count else { return false }
    return unsafe a.withUnsafeBytes { left in
        unsafe b.withUnsafeBytes { right in
            unsafe CRYPTO_memcmp(left.baseAddress, right.baseAddress, left.count) == 0
        }
    }
}
