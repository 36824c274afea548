/// The push tokens that APNs accepted recently, with which an ill or stopped credential is probed.
///
/// A table of seeded 32-bit hashes, the newest of each place: a token may be forgotten, and one in about two thousand
/// million is wrongly taken for known. Bounded: 32 kB, from the first accepted token on.
struct KnownTokens: Sendable {
    static let places = 8192

    private var hashes: [UInt32] = []

    /// - Parameter hash: that of a token, seeded.
    mutating func insert(_ hash: Int) {
        if self.hashes.isEmpty { self.hashes = [UInt32](repeating: 0, count: Self.places) }
        let bits = UInt(bitPattern: hash)
        self.hashes[Int(bits % UInt(Self.places))] = Self.mark(bits)
    }

    func contains(_ hash: Int) -> Bool {
        guard !self.hashes.isEmpty else { return false }
        let bits = UInt(bitPattern: hash)
        return self.hashes[Int(bits % UInt(Self.places))] == Self.mark(bits)
    }

    /// Returns the hash's upper half with its lowest bit set: 0 is an empty place.
    private static func mark(_ bits: UInt) -> UInt32 { UInt32(truncatingIfNeeded: bits >> 32) | 1 }
}
