/// Lets a backlog be read before it is processed, so that many changes of one key become one piece of work.
///
/// It waits only with more records in hand than ever arrive together otherwise, only as long as more of them arrive,
/// and once for each backlog; two batches are in work during the reading.
struct BacklogLinger {
    /// The number of records in hand that is a backlog. More than a second's changes of a busy shop.
    static let backlog = 1024
    /// The longest time for reading before all of the work begins.
    static let longest = Duration.seconds(1)
    /// The time without a record after which everything counts as read.
    static let quiet = Duration.milliseconds(20)

    /// The time when the backlog began.
    private var began: ContinuousClock.Instant?

    /// Returns true if the work must wait.
    ///
    /// - Parameters:
    ///   - inHand: the number of records that are not done, including those that just arrived.
    ///   - came: the number of records that just arrived.
    mutating func isDue(inHand: Int, came: Int, now: ContinuousClock.Instant) -> Bool {
        guard inHand >= Self.backlog else {
            self.began = nil
            return false
        }
        let began = self.began ?? now
        self.began = began
        return came > 0 && now - began < Self.longest
    }
}
