/// The last deliveries in a ring: the oldest goes when it is full.
struct APNSSimulatorJournal {
    private var ring: [APNSSimulatorDelivery] = []
    /// Where the oldest stands once the ring is full.
    private var start = 0
    private let limit: Int
    /// The sequence of the newest, also after it was removed.
    private(set) var last: UInt64 = 0
    /// How many were overwritten.
    private(set) var dropped: UInt64 = 0

    /// - Parameter limit: how many are kept, at least one.
    init(limit: Int) { self.limit = max(1, limit) }

    /// Adds the next one; `make` is given its sequence.
    mutating func append(_ make: (_ sequence: UInt64) -> APNSSimulatorDelivery) {
        self.last += 1
        let delivery = make(self.last)
        if self.ring.count < self.limit {
            self.ring.append(delivery)
        } else {
            self.ring[self.start] = delivery
            self.start = (self.start + 1) % self.limit
            self.dropped += 1
        }
    }

    /// Those with a higher sequence, oldest first.
    func deliveries(after sequence: UInt64, limit: Int = .max) -> APNSSimulatorDeliveries {
        let newer = self.last > sequence ? self.last - sequence : 0
        let available = newer > UInt64(self.ring.count) ? self.ring.count : Int(newer)
        let first = self.ring.count - available
        let taken = (first..<first + min(available, max(0, limit))).map {
            self.ring[(self.start + $0) % self.ring.count]
        }
        let end = taken.last?.sequence ?? (available == 0 ? self.last : sequence)
        return APNSSimulatorDeliveries(deliveries: taken, last: end, dropped: self.dropped)
    }

    /// Forgets all; sequences go on.
    mutating func removeAll() {
        self.ring = []
        self.start = 0
    }
}
