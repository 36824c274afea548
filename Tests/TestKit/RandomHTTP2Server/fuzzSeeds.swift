import Foundation

/// Returns the seeds of a fuzzer's runs: 1 to `count`, or the value of WAYBILL_FUZZ_SEEDS: `500` for 1 to 500, `17-17`
/// for a single seed that failed.
/// - Parameter share: the factor for a number of runs from the environment; a fuzzer with long runs takes a smaller
///   one.
public func fuzzSeeds(_ count: UInt64, share: Double = 1) -> [UInt64] {
    let wish = ProcessInfo.processInfo.environment["WAYBILL_FUZZ_SEEDS"] ?? ""
    let numbers = wish.split(separator: "-").compactMap { UInt64($0) }
    if numbers.count == 2, numbers[0] <= numbers[1] { return Array(numbers[0]...numbers[1]) }
    let wished = numbers.first.map { UInt64(Double(min($0, 1_000_000)) * share) }
    return Array(1...max(1, wished ?? count))
}

/// A generator of random numbers for the peer of a fuzzed program, so that a failure can be reproduced.
public struct SeededRandom: RandomNumberGenerator, Sendable {
    private var random: SeededGenerator

    public init(seed: UInt64) { self.random = SeededGenerator(seed: seed) }

    public mutating func next() -> UInt64 { self.random.next() }
}
