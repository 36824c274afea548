import DequeModule
import NIOCore

/// The notifications that wait for a free stream: bounded, first in first out, each with a time by which it leaves.
///
/// A value with no clock. `Element` is what the client wants back.
struct PushQueue<Element> {
    /// One notification on its way.
    struct Entry {
        var element: Element
        var accepted: NIODeadline
        /// When its first stream was opened; survives a refusal, so that retries share one deadline.
        var started: NIODeadline?
    }

    private var entries: Deque<Entry> = []
    private var lastProgress = NIODeadline.uptimeNanoseconds(0)
    private let limit: Int
    private let requestTimeout: TimeAmount
    private let queueTimeout: TimeAmount

    init(limit: Int, requestTimeout: TimeAmount, queueTimeout: TimeAmount) {
        self.limit = limit
        self.requestTimeout = requestTimeout
        self.queueTimeout = queueTimeout
    }

    var count: Int { self.entries.count }
    var isEmpty: Bool { self.entries.isEmpty }
    /// When the first in the line came.
    var oldestAccepted: NIODeadline? { self.entries.first?.accepted }

    /// - Returns: false when the queue is full; the element is not taken.
    mutating func append(_ element: Element, now: NIODeadline) -> Bool {
        guard self.entries.count < self.limit else { return false }
        self.entries.append(Entry(element: element, accepted: now))
        return true
    }

    mutating func next() -> Entry? { self.entries.popFirst() }

    /// Takes back what was refused unprocessed, ahead of all others; the limit does not count, it had its place before.
    mutating func putBack(_ entry: Entry) { self.entries.prepend(entry) }

    /// An answer came, so the queue moves.
    mutating func progressed(now: NIODeadline) { self.lastProgress = now }

    /// When an entry must leave: a started one after `requestTimeout`; a waiting one when nothing was answered for
    /// that long
    /// since it came, or after `queueTimeout` in any case.
    func deadline(of entry: Entry) -> NIODeadline {
        if let started = entry.started { return started + self.requestTimeout }
        return min(entry.accepted + self.queueTimeout, max(entry.accepted, self.lastProgress) + self.requestTimeout)
    }

    /// Takes out, oldest first, what has waited too long.
    ///
    /// Looks from the front only: refused entries stand there, and among the others the first has the earliest
    /// deadline.
    mutating func takeExpired(now: NIODeadline) -> [Entry] {
        var expired: [Entry] = []
        while let first = self.entries.first, self.deadline(of: first) <= now {
            expired.append(first)
            self.entries.removeFirst()
        }
        return expired
    }

    mutating func takeAll() -> [Entry] {
        defer { self.entries.removeAll() }

        return Array(self.entries)
    }
}
