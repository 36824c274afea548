import CCrypto

/// Whether two byte strings are equal, in a time that tells nothing about where they differ.
///
/// The lengths are no secret: different ones are answered at once.
/// Source: openssl CRYPTO_memcmp(3)
public func constantTimeEqual(_ a: [UInt8], _ b: [UInt8]) -> Bool {
    guard a.count == b.count else { return false }
    return unsafe a.withUnsafeBytes { left in
        unsafe b.withUnsafeBytes { right in
            unsafe CRYPTO_memcmp(left.baseAddress, right.baseAddress, left.count) == 0
        }
    }
}
