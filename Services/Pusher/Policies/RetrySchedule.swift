import APNS
import Model

/// Decides when a notification that failed is sent again, and when its retries end.
///
/// The backoff is exponential with jitter, and honours `Retry-After`. Failures because of the device are bounded in
/// number and in time, those because of the service or a connection only in time, by a long limit: in a brown-out the
/// same notification fails often. Each attempt that counts adds the time that it took and the pause after it. The wall
/// clock would also count an hour in which APNs was unavailable, and end the retries with the first failure after it.
/// The first attempt counts from its sending, not from its failure: ten seconds without an answer hold a partition back
/// like any others. A value without a clock, and small, since each failing notification has one.
struct RetrySchedule: Hashable, Sendable {
    /// The most attempts and time that one notification may take.
    struct Limits: Hashable, Sendable {
        /// Attempts that failed because of the device.
        var attempts = 8
        /// Time that they may take.
        var hold = Duration.seconds(300)
        /// Time that failures of the service and of connections may take: longer than any incident.
        var service = Duration.seconds(86_400)
    }

    /// The step after a failure.
    enum Step: Hashable, Sendable {
        case again(after: Duration)
        case giveUp
    }

    /// Returns the first pause: a new connection is available immediately, while APNs, or a device with too many
    /// requests, needs time.
    static func first(_ scope: PushRetry.Scope) -> Duration {
        switch scope {
        case .connection: .milliseconds(100)
        case .service: .seconds(1)
        case .device: .seconds(2)
        }
    }

    /// The second pause after a lost connection; from then on it doubles like the others.
    static let secondOfConnection = Duration.seconds(1)
    /// Returns the longest pause that APNs did not request: a busy device needs more time, and once the service has
    /// recovered, all devices are notified within a minute.
    static func longest(_ scope: PushRetry.Scope) -> Duration {
        switch scope {
        case .device: .seconds(60)
        case .connection, .service: .seconds(30)
        }
    }
    /// The longest `Retry-After` that is honoured for failures that do not count as attempts, unless the hold limit is
    /// shorter: no notification waits longer after APNs has recovered. While APNs is unavailable, the credential's
    /// probes respect the time that it requested.
    static let mostRetryAfter = Duration.seconds(300)

    /// Failed attempts of any cause.
    private(set) var attempts: UInt32 = 0
    /// Attempts that failed because of the device.
    private(set) var counted: UInt32 = 0
    /// Time that they took, the pauses after them included.
    private(set) var held = Duration.zero
    /// The same for those that failed because of the service or a connection.
    private(set) var heldByService = Duration.zero

    init() {}

    /// Processes a failed attempt.
    ///
    /// - Parameters:
    ///   - took: the time from handing it to the client to its outcome.
    ///   - random: returns a number within a range.
    mutating func failed(
        _ retry: PushRetry, blame: FailureAttribution, took: Duration, limits: Limits,
        random: (ClosedRange<Double>) -> Double
    ) -> Step {
        // Beyond four thousand million attempts the backoff is at its longest anyway.
        if self.attempts < .max { self.attempts += 1 }
        let took = max(took, .zero)
        var room = min(Self.mostRetryAfter, limits.hold)
        // The last attempt is made at the limit even if APNs requested a longer pause: it costs at most one early
        // request, and it may succeed.
        switch blame {
        case .nobody: break
        case .time:
            self.heldByService += took
            guard self.heldByService < limits.service else { return .giveUp }
            room = min(room, limits.service - self.heldByService)
        case .notification:
            if self.counted < .max { self.counted += 1 }
            self.held += took
            guard self.held < limits.hold, Int64(self.counted) < Int64(limits.attempts) else { return .giveUp }
            room = limits.hold - self.held
        }
        let delay = min(self.delay(retry, random: random), room)
        switch blame {
        case .nobody: break
        case .time: self.heldByService += delay
        case .notification: self.held += delay
        }
        return .again(after: delay)
    }

    private func delay(_ retry: PushRetry, random: (ClosedRange<Double>) -> Double) -> Duration {
        var doublings = self.attempts - 1
        var base = Self.first(retry.scope)
        if retry.scope == .connection, doublings > 0 {
            base = Self.secondOfConnection
            doublings -= 1
        }
        // 2^10 times the smallest base is beyond the longest.
        let whole = min(base * (1 << min(doublings, 10)), Self.longest(retry.scope))
        let jittered = whole * random(0.5...1)
        guard let seconds = retry.afterSeconds, seconds > 0 else { return jittered }
        // Notifications that were given the same time are not all sent again at the same time.
        let asked = Duration.seconds(min(seconds, 86_400)) * random(1...1.1)
        return max(asked, jittered)
    }
}

/// The outcomes of the attempts of one notification, for its dead letter: the first few and the last few.
///
/// Holds neither push token nor device. Bounded: 12 attempts of some 100 bytes.
struct PushHistory: Hashable, Sendable {
    /// One attempt that failed.
    struct Attempt: Hashable, Sendable {
        /// The time of its outcome, milliseconds since 1970.
        let epochMilliseconds: Int64
        /// The answer's status, nil without an answer.
        let status: Int?
        /// The answer's reason.
        let reason: String?
        /// `apns-id` of the answer, which Apple's support asks for.
        let apnsID: String?
        /// The reason why there was no answer.
        let error: APNSError.Code?

        init(_ outcome: PushOutcome, epochMilliseconds: Int64) {
            self.epochMilliseconds = epochMilliseconds
            switch outcome {
            case .answered(let answer):
                self.status = answer.status
                self.reason = answer.reason.map(PushReason.word)
                self.apnsID = answer.apnsID.flatMap(uuid)
                self.error = nil
            case .unanswered(let error):
                self.status = nil
                self.reason = nil
                self.apnsID = nil
                self.error = error.code
            }
        }

        /// The outcome as text, such as `429 TooManyRequests`, `500` or `timeout`.
        var text: String {
            if let error = self.error { return error.rawValue }
            return ([self.status.map { String($0) }, self.reason] as [String?]).compactMap { $0 }
                .joined(separator: " ")
        }

        /// An object with the available fields.
        var json: JSON {
            var members: [(String, JSON)] = [("at", .integer(self.epochMilliseconds))]
            if let status = self.status { members.append(("status", .integer(Int64(status)))) }
            if let reason = self.reason { members.append(("reason", .string(reason))) }
            if let apnsID = self.apnsID { members.append(("apnsId", .string(apnsID))) }
            if let error = self.error { members.append(("error", .string(error.rawValue))) }
            return .object(JSONObject(members))
        }
    }

    /// The beginning is as informative as the end.
    static let firstLimit = 4
    static let lastLimit = 8

    private(set) var first: [Attempt] = []
    private(set) var last: [Attempt] = []
    /// The number of attempts between `first` and `last`, which are not kept.
    private(set) var omitted = 0

    init() {}

    /// All attempts, kept or not.
    var count: Int { self.first.count + self.omitted + self.last.count }

    /// The last attempt.
    var newest: Attempt? { self.last.last ?? self.first.last }

    mutating func append(_ outcome: PushOutcome, epochMilliseconds: Int64) {
        let attempt = Attempt(outcome, epochMilliseconds: epochMilliseconds)
        if self.first.count < Self.firstLimit {
            self.first.append(attempt)
            return
        }
        if self.last.count == Self.lastLimit {
            self.last.removeFirst()
            self.omitted += 1
        }
        self.last.append(attempt)
    }
}

/// Returns a text that looks like an `apns-id`, else nil: other text from an unknown server is not passed on.
private func uuid(_ text: String) -> String? {
    let isUUID = text.utf8.count == 36 && text.utf8.allSatisfy { $0 == UInt8(ascii: "-") || isHexadecimal($0) }
    return isUUID ? text : nil
}

private func isHexadecimal(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"),
        UInt8(ascii: "A")...UInt8(ascii: "F"):
        true
    default: false
    }
}
