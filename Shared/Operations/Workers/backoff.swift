/// How long to wait before something is tried again: exponential from 100 ms to 5 s, up to half of it taken off at
/// random, so that workers do not come back in step.
///
/// - Parameters:
///   - attempt: how often it was tried, from 1.
///   - random: a number of the given range.
public func backoff(attempt: Int, random: (ClosedRange<Double>) -> Double) -> Duration {
    let full = min(5.0, 0.1 * Double(1 << (min(max(attempt, 1), 10) - 1)))
    return .seconds(full * random(0.5...1))
}
