import Model

/// Decides if a push token that APNs does not know (BadDeviceToken, or ExpiredToken with 400) is deleted.
///
/// APNs gives the same answer for garbage and for every good token that is sent to the wrong environment, and a
/// middlebox may give it for all, so the answer is trusted only while the credential delivers to others and few tokens
/// are bad; else the breaker is open, nothing is deleted, and an alarm is raised. 410 needs no breaker: it has a
/// timestamp.
///
/// One for each credential and host; a changed one starts with a fresh value, which has proven nothing yet. A value of
/// constant size without a clock.
struct TokenBreaker: Sendable {
    enum State: Hashable, Sendable {
        case closed
        case open(since: MonotonicTime)

        /// The value for a gauge: 0 closed, 1 open.
        var gauge: Int { if case .open = self { 1 } else { 0 } }
    }

    /// The decision about one bad token.
    enum Decision: Hashable, Sendable {
        case retire
        /// The registration stays, and the notification is dropped.
        case keep(Reason)
    }

    enum Reason: String, Hashable, Sendable, CaseIterable {
        /// Nothing was delivered yet with this credential, which may be used with the wrong environment.
        case unproven
        /// Too many are bad.
        case open
    }

    struct Ruling: Hashable, Sendable {
        let decision: Decision
        /// The new state, if it has changed: an alarm when it opens.
        let change: State?
    }

    /// The period: long enough that a quiet brand's few deliveries count, short enough to forget a deployment.
    static let buckets = 20
    static let bucket = Duration.seconds(30)
    static let period = Self.bucket * Self.buckets
    /// Bad tokens within `period` that need no deliveries to compare with: one customer's old devices.
    static let alwaysAllowed = 5
    /// Deliveries for each further bad token that is allowed. APNs answers 410 for devices that are gone, so a bad
    /// token is garbage, which is rarely registered.
    static let deliveriesPerBad = 100
    /// Most bad tokens that are allowed in any case: registrations deleted before a flood is noticed return only when
    /// their customers look at the order again.
    static let mostAllowed = 200
    /// Bad tokens in a row, with no delivery in between: with one of a hundred bad this does not happen by chance.
    static let inARow = 10

    private(set) var state = State.closed
    private var window = VerdictWindow(buckets: Self.buckets, of: Self.bucket)
    private var isProven = false
    private var run = 0

    /// Counts a notification that APNs accepted.
    ///
    /// - Returns: the state if it changed.
    mutating func delivered(now: MonotonicTime) -> State? {
        self.window.record(now: now) { $0.delivered += 1 }
        self.isProven = true
        self.run = 0
        return self.closeIfQuiet(now)
    }

    /// Counts an answer that APNs does not know a token, and decides if the registration is removed.
    mutating func refused(now: MonotonicTime) -> Ruling {
        self.window.record(now: now) { $0.unknown += 1 }
        self.run += 1
        guard self.isProven else { return Ruling(decision: .keep(.unproven), change: nil) }
        if case .open = self.state {
            let change = self.closeIfQuiet(now)
            return Ruling(decision: change == nil ? .keep(.open) : .retire, change: change)
        }
        guard self.isFlood else { return Ruling(decision: .retire, change: nil) }
        self.state = .open(since: now)
        return Ruling(decision: .keep(.open), change: self.state)
    }

    // MARK: Internals

    private var isFlood: Bool {
        let counts = self.window.counts
        let allowed = min(Self.alwaysAllowed + Int(counts.delivered) / Self.deliveriesPerBad, Self.mostAllowed)
        return self.run >= Self.inARow || counts.unknown > allowed
    }

    /// Closes the breaker when a whole period after its opening had deliveries and few bad tokens.
    private mutating func closeIfQuiet(_ now: MonotonicTime) -> State? {
        guard case .open(let since) = self.state, now - since >= Self.period, !self.isFlood,
            self.window.counts.delivered > 0
        else { return nil }
        self.state = .closed
        return .closed
    }
}

/// The push tokens that APNs accepted recently, with which an ill or stopped credential is probed.
///
/// A table of seeded 32-bit hashes, the newest of each place: a token may be forgotten, and one in about two thousand
/// million is wrongly taken for known. Bounded: 32 kB, from the first accepted token on.
struct KnownTokens: Sendable {
    static let places = 8192

    private var hashes: [UInt32] = []

    /// - Parameter hash: that of a token, seeded.
    mutating func insert(_ hash: Int) {
        if self.hashes.isEmpty { self.hashes = [UInt32](repeating: 0, count: Self.places) }
        let bits = UInt(bitPattern: hash)
        self.hashes[Int(bits % UInt(Self.places))] = Self.mark(bits)
    }

    func contains(_ hash: Int) -> Bool {
        guard !self.hashes.isEmpty else { return false }
        let bits = UInt(bitPattern: hash)
        return self.hashes[Int(bits % UInt(Self.places))] == Self.mark(bits)
    }

    /// Returns the hash's upper half with its lowest bit set: 0 is an empty place.
    private static func mark(_ bits: UInt) -> UInt32 { UInt32(truncatingIfNeeded: bits >> 32) | 1 }
}
