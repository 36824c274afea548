import DequeModule
import HeapModule

/// The times at which targets become due. Windows are all of one length, so they end in the order in which they began
/// and need no sorting; all other times are in a heap.
struct DueTimes {
    /// A target and its due time; the ticket shows if the target has moved on since the entry was made.
    struct Entry: Comparable {
        let due: ContinuousClock.Instant
        let slot: Int32
        let ticket: UInt32

        static func < (left: Self, right: Self) -> Bool { left.due < right.due }
    }

    private var windows: Deque<Entry> = []
    private var later: Heap<Entry> = []

    /// The earliest time.
    var first: ContinuousClock.Instant? {
        guard let window = self.windows.first else { return self.later.min?.due }
        guard let later = self.later.min else { return window.due }
        return min(window.due, later.due)
    }

    /// Adds the end of a window. A window that ends before one that was added earlier goes into the heap.
    mutating func add(window entry: Entry) {
        if let last = self.windows.last, entry.due < last.due {
            self.later.insert(entry)
        } else {
            self.windows.append(entry)
        }
    }

    /// Adds any other time.
    mutating func add(later entry: Entry) { self.later.insert(entry) }

    /// Removes and returns the next entry that is due.
    mutating func next(now: ContinuousClock.Instant) -> Entry? {
        let window = self.windows.first.flatMap { $0.due <= now ? $0 : nil }
        if let top = self.later.min, top.due <= now, window.map({ top.due < $0.due }) ?? true {
            return self.later.removeMin()
        }
        guard window != nil else { return nil }
        return self.windows.popFirst()
    }
}
