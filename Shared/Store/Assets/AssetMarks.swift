/// The assets that orders name, in 8 MiB regardless of their number: a Bloom filter.
///
/// It never forgets an asset that was inserted. It reports some others as inserted: one in 400 with four million
/// assets; those stay in Redis until the next scan, which uses another salt.
struct AssetMarks {
    private static let bitCount: UInt64 = 1 << 26
    private static let hashes: UInt64 = 4

    private var words = [UInt64](repeating: 0, count: Int(Self.bitCount / 64))
    private let salt: UInt64

    /// - Parameter salt: different for each scan.
    init(salt: UInt64) { self.salt = salt }

    mutating func insert(_ digest: some StringProtocol) {
        for place in self.places(digest) { self.words[Int(place >> 6)] |= 1 << (place & 63) }
    }

    func contains(_ digest: some StringProtocol) -> Bool {
        self.places(digest).allSatisfy { self.words[Int($0 >> 6)] & 1 << ($0 & 63) != 0 }
    }

    /// Returns the bits of a digest, by double hashing. The digests are SHA-256, so any hash distributes them.
    private func places(_ digest: some StringProtocol) -> [UInt64] {
        var first = Hasher()
        first.combine(self.salt)
        first.combine(String(digest))
        var second = first
        second.combine(1)
        let (one, two) = (UInt64(bitPattern: Int64(first.finalize())), UInt64(bitPattern: Int64(second.finalize())))
        return (0..<Self.hashes).map { (one &+ $0 &* (two | 1)) % Self.bitCount }
    }
}
