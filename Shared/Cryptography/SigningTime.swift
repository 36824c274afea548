import CCrypto

/// A moment as CMS writes it.
enum SigningTime {
    /// Returns a UTCTime for the years 1950 to 2049, otherwise a GeneralizedTime; always with seconds and zone Z.
    ///
    /// Source: RFC 5652 §11.3; openssl ASN1_TIME_set(3)
    /// - Parameter epochSeconds: clamped to the years 0 to 9999, since others cannot be written; no clock has them.
    static func element(epochSeconds: Int64) -> [UInt8] {
        let time = unsafe ASN1_TIME_set(nil, time_t(min(max(epochSeconds, -62_167_219_200), 253_402_300_799)))
        defer { unsafe ASN1_TIME_free(time) }

        var der: UnsafeMutablePointer<UInt8>?
        let length = unsafe i2d_ASN1_TIME(time, &der)
        // Only for lack of memory.
        guard length > 0 else { return [] }
        defer { unsafe ccrypto_free(der) }

        return unsafe Array(UnsafeBufferPointer(start: der, count: Int(length)))
    }
}
