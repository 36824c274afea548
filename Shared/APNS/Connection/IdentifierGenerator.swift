/// A generator of random numbers for `apns-id` and jitter, seeded by the system's generator, which costs a system call
/// for each number.
///
/// Good enough not to repeat a UUID; not suitable for secrets.
/// Source: D. Blackman, S. Vigna, "Scrambled linear pseudorandom number generators": xoshiro256**
struct IdentifierGenerator: RandomNumberGenerator {
    private var state: (UInt64, UInt64, UInt64, UInt64)

    init() {
        var system = SystemRandomNumberGenerator()
        self.init(seed: (system.next(), system.next(), system.next(), system.next()))
    }

    /// - Parameter seed: not all zero.
    init(seed: (UInt64, UInt64, UInt64, UInt64)) {
        // A state of zeros would produce only zeros.
        self.state = seed == (0, 0, 0, 0) ? (1, 0, 0, 0) : seed
    }

    mutating func next() -> UInt64 {
        let result = Self.rotated(self.state.1 &* 5, by: 7) &* 9
        let shifted = self.state.1 << 17
        self.state.2 ^= self.state.0
        self.state.3 ^= self.state.1
        self.state.1 ^= self.state.2
        self.state.0 ^= self.state.3
        self.state.2 ^= shifted
        self.state.3 = Self.rotated(self.state.3, by: 45)
        return result
    }

    private static func rotated(_ value: UInt64, by count: UInt64) -> UInt64 {
        (value << count) | (value >> (64 - count))
    }
}
