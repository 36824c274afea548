import Model

/// The made-up order type that a rehearsal tells about.
func rehearsalOrderType() throws -> OrderTypeIdentifier { try OrderTypeIdentifier("order.com.example.rehearsal") }

/// Made-up push tokens, the same in each run; as long as Apple's are today and as hard to compress.
///
/// Source: Wallet Orders §4.3; the generator is SplitMix64
func rehearsalTargets(_ count: Int) throws -> [PushToken] {
    var state: UInt64 = 0x5EED
    func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
    return try (0..<count).map { _ in
        let words = (0..<4).map { _ in
            let digits = String(next(), radix: 16)
            return String(repeating: "0", count: 16 - digits.utf8.count) + digits
        }
        return try PushToken(words.joined())
    }
}
