import CCrypto

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
