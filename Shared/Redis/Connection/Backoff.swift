/// The wait before the next attempt to connect.
///
/// Doubles from 50 ms to 2 s; half of it is random, so that a fleet that lost its server does not reconnect all at
/// once.
enum Backoff {
    private static let first = Duration.milliseconds(50)
    private static let last = Duration.seconds(2)

    /// - Parameters:
    ///   - attempt: failures in a row, from 1.
    ///   - jitter: from 0 to 1, random for each attempt.
    static func delay(attempt: Int, jitter: Double) -> Duration {
        let doublings = max(0, min(attempt - 1, 6))
        let whole = min(Self.first * (1 << doublings), Self.last)
        return whole / 2 + (whole / 2) * max(0, min(jitter, 1))
    }
}
