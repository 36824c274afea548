/// The schedule of retries for a picture that could not be fetched.
///
/// After a temporary failure: exponential from two seconds to an hour, for about two hours. After a failure of the
/// picture itself (not there yet, no picture, a host that is not allowed): after a minute, ten minutes, an hour and six
/// hours, since people upload pictures late and correct mistakes. After that the orders no longer wait for the picture,
/// and it rests until an order names it again later.
struct PictureRetry: Sendable {
    /// The length of a second in the schedule; tests make it short.
    var second: Duration = .seconds(1)

    /// The action after a failure.
    enum Step: Hashable, Sendable {
        case again(after: Duration)
        case giveUp(restSeconds: Int64)
    }

    private static let attemptLimit: Int64 = 13
    private static let slowDelays: [Int64] = [60, 600, 3600, 6 * 3600]
    private static let longestDelay: Int64 = 3600

    /// - Parameters:
    ///   - attempts: failures in a row, this one included, from 1.
    ///   - retryAfterSeconds: the delay that the server requests.
    func step(after failure: PictureFailure, attempts: Int64, retryAfterSeconds: Int64? = nil) -> Step {
        guard failure.isTemporary else {
            guard attempts <= Self.slowDelays.count else { return .giveUp(restSeconds: 24 * 3600) }
            return self.again(Self.slowDelays[Int(max(1, attempts)) - 1])
        }
        guard attempts < Self.attemptLimit else { return .giveUp(restSeconds: 3600) }
        let delay = 1 << min(max(attempts, 1), 12)
        let wish = min(max(retryAfterSeconds ?? 0, 0), Self.longestDelay)
        return self.again(min(max(Int64(delay), wish), Self.longestDelay))
    }

    private func again(_ seconds: Int64) -> Step { .again(after: self.second * Double(seconds)) }
}
