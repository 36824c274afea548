import Model

/// Returns the invented order type of a load test's notifications.
func loadTestOrderType() throws -> OrderTypeIdentifier { try OrderTypeIdentifier("order.com.example.load-test") }

/// An invented device and the order that it follows.
struct LoadTestTarget: Hashable, Sendable {
    let device: DeviceIdentifier
    let order: OrderIdentifier
    let registration: RegistrationRecord
}

/// Returns invented devices, the same in each run; their push tokens are as long as Apple's are today and as hard to
/// compress.
///
/// Source: Wallet Orders §4.3; the generator is SplitMix64
func loadTestTargets(_ count: Int) throws -> [LoadTestTarget] {
    var state: UInt64 = 0x5EED
    func next() -> String {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        let digits = String(mixed ^ (mixed >> 31), radix: 16)
        return String(repeating: "0", count: 16 - digits.utf8.count) + digits
    }
    return try (0..<count).map { _ in
        let token = try PushToken((0..<4).map { _ in next() }.joined())
        return LoadTestTarget(
            device: try DeviceIdentifier(next() + next()), order: try OrderIdentifier(next()),
            registration: RegistrationRecord(pushToken: token, registeredEpochMilliseconds: 0))
    }
}
