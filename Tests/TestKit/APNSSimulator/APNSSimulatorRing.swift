/// A ring of the latest elements: when it is full, a new element overwrites the oldest. Each element has a sequence.
struct APNSSimulatorRing<Element> {
    private var ring: [Element] = []
    /// The index of the oldest element in a full ring, otherwise 0.
    private var start = 0
    private let limit: Int
    /// The sequence of the newest element, even after its removal.
    private(set) var last: UInt64 = 0
    /// The number of elements that were overwritten.
    private(set) var dropped: UInt64 = 0

    /// - Parameter limit: the most elements kept, at least one.
    init(limit: Int) { self.limit = max(1, limit) }

    /// Adds an element; `make` receives its sequence.
    mutating func append(_ make: (_ sequence: UInt64) -> Element) {
        self.last += 1
        let element = make(self.last)
        if self.ring.count < self.limit {
            self.ring.append(element)
        } else {
            self.ring[self.start] = element
            self.start = (self.start + 1) % self.limit
            self.dropped += 1
        }
    }

    /// Returns the elements with a higher sequence, oldest first, and the sequence to pass in the next request.
    func elements(after sequence: UInt64, limit: Int = .max) -> (elements: [Element], last: UInt64) {
        let newer = self.last > sequence ? self.last - sequence : 0
        let available = newer > UInt64(self.ring.count) ? self.ring.count : Int(newer)
        let first = self.ring.count - available
        let count = min(available, max(0, limit))
        let taken = (first..<first + count).map { self.ring[(self.start + $0) % self.ring.count] }
        let left = UInt64(available - count)
        return (taken, available == 0 ? self.last : count == 0 ? sequence : self.last - left)
    }

    /// Removes all elements; sequences continue.
    mutating func removeAll() {
        self.ring = []
        self.start = 0
    }
}
