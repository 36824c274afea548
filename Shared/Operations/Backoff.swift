/// Returns the wait before a retry: exponential from 100 ms to 5 s, less up to half of it at random, so that workers do
/// not retry in step.
///
/// - Parameters:
///   - attempt: the number of attempts so far, from 1.
///   - random: returns a number of the given range.
public func backoff(attempt: Int, random: (ClosedRange<Double>) -> Double) -> Duration {
    let full = min(5.0, 0.1 * Double(1 << (min(max(attempt, 1), 10) - 1)))
    return .seconds(full * random(0.5...1))
}
