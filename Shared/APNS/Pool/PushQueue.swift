import DequeModule
import NIOCore

/// The notifications that wait for a free stream: bounded, first in first out, each with a deadline.
///
/// Notifications that were refused unprocessed return ahead of all others, by the time of their first start. A value
/// with no clock. `Element` is the client's own type.
struct PushQueue<Element> {
    /// One queued notification.
    struct Entry {
        var element: Element
        var accepted: NIODeadline
        /// The time when its first stream was opened; survives a refusal, so that retries share one deadline.
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
    /// The time when the first in the queue came.
    var oldestAccepted: NIODeadline? {
        [self.waiting.first?.accepted, self.returned.first?.accepted].compactMap(\.self).min()
    }

    /// - Returns: false if the queue is full; the element is not queued.
    mutating func append(_ element: Element, now: NIODeadline) -> Bool {
        guard self.count < self.limit else { return false }
        self.waiting.append(Entry(element: element, accepted: now))
        return true
    }

    mutating func next() -> Entry? { self.returned.popFirst() ?? self.waiting.popFirst() }

    /// Puts back an entry that was refused unprocessed, or could not be started after all; the limit does not apply,
    /// since it was counted before.
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

    /// The deadline of an entry: a started one leaves after `requestTimeout`; a waiting one when nothing has been
    /// answered for that long since it came, or after `queueTimeout` in any case.
    func deadline(of entry: Entry) -> NIODeadline {
        if let started = entry.started { return started + self.requestTimeout }
        return min(entry.accepted + self.queueTimeout, max(entry.accepted, self.lastProgress) + self.requestTimeout)
    }

    /// Removes and returns, oldest first, the entries that have waited too long; the first of either list has its
    /// earliest deadline.
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
