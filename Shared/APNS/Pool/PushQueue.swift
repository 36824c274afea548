import DequeModule
import NIOCore

/// The notifications that wait for a free stream: bounded, first in first out, each with a time by which it leaves.
///
/// What was refused unprocessed comes back in front of all others, by the time of its first start. A value with no
/// clock. `Element` is what the client wants back.
struct PushQueue<Element> {
    /// One notification on its way.
    struct Entry {
        var element: Element
        var accepted: NIODeadline
        /// When its first stream was opened; survives a refusal, so that retries share one deadline.
        var started: NIODeadline?
    }

    private var waiting: Deque<Entry> = []
    /// Sorted by `started`; at most as many as streams can be open.
    private var returned: Deque<Entry> = []
    private var lastProgress = NIODeadline.uptimeNanoseconds(0)
    private let limit: Int
    private let requestTimeout: TimeAmount
    private let queueTimeout: TimeAmount

    init(limit: Int, requestTimeout: TimeAmount, queueTimeout: TimeAmount) {
        self.limit = limit
        self.requestTimeout = requestTimeout
        self.queueTimeout = queueTimeout
    }

    var count: Int { self.waiting.count + self.returned.count }
    var isEmpty: Bool { self.waiting.isEmpty && self.returned.isEmpty }
    /// When the first in the line came.
    var oldestAccepted: NIODeadline? {
        [self.waiting.first?.accepted, self.returned.first?.accepted].compactMap(\.self).min()
    }

    /// - Returns: false when the queue is full; the element is not taken.
    mutating func append(_ element: Element, now: NIODeadline) -> Bool {
        guard self.count < self.limit else { return false }
        self.waiting.append(Entry(element: element, accepted: now))
        return true
    }

    mutating func next() -> Entry? { self.returned.popFirst() ?? self.waiting.popFirst() }

    /// Takes back what was refused unprocessed, or could not be started after all; the limit does not count, it had
    /// its place before.
    mutating func putBack(_ entry: Entry) {
        guard let started = entry.started else { return self.waiting.prepend(entry) }
        // Nearly always the last or the first, so a search from the end is short.
        var index = self.returned.endIndex
        while index > self.returned.startIndex, let before = self.returned[index - 1].started, before > started {
            index -= 1
        }
        self.returned.insert(entry, at: index)
    }

    /// An answer came, so the queue moves.
    mutating func progressed(now: NIODeadline) { self.lastProgress = now }

    /// When an entry must leave: a started one after `requestTimeout`; a waiting one when nothing was answered for
    /// that long since it came, or after `queueTimeout` in any case.
    func deadline(of entry: Entry) -> NIODeadline {
        if let started = entry.started { return started + self.requestTimeout }
        return min(entry.accepted + self.queueTimeout, max(entry.accepted, self.lastProgress) + self.requestTimeout)
    }

    /// Takes out, oldest first, what has waited too long; the first of either line has its earliest deadline.
    mutating func takeExpired(now: NIODeadline) -> [Entry] {
        var expired: [Entry] = []
        while let first = self.returned.first, self.deadline(of: first) <= now {
            expired.append(self.returned.removeFirst())
        }
        while let first = self.waiting.first, self.deadline(of: first) <= now {
            expired.append(self.waiting.removeFirst())
        }
        return expired
    }

    mutating func takeAll() -> [Entry] {
        defer {
            self.waiting.removeAll()
            self.returned.removeAll()
        }

        return Array(self.returned) + Array(self.waiting)
    }
}
