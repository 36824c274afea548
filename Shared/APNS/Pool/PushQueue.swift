import DequeModule
import NIOCore

/// The notifications that wait for a free stream: bounded, first in first out, each with a deadline.
///
/// Notifications that were refused unprocessed return ahead of all others, sorted by the time of their first start. A
/// value: no clock. `Element` is the client's own type.
struct PushQueue<Element> {
    /// One queued notification.
    struct Entry {
        var element: Element
        var accepted: NIODeadline
        /// The time of its first start, kept after a refusal, so that retries share one deadline.
        var started: NIODeadline?
    }

    private var waiting: Deque<Entry> = []
    /// The refused entries, sorted by `started`; at most as many as the streams that can be open.
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
    /// The time when the first entry was accepted; nil if the queue is empty.
    var oldestAccepted: NIODeadline? {
        [self.waiting.first?.accepted, self.returned.first?.accepted].compactMap(\.self).min()
    }

    /// - Returns: false if the queue is full, so that the element is not queued.
    mutating func append(_ element: Element, now: NIODeadline) -> Bool {
        guard self.count < self.limit else { return false }
        self.waiting.append(Entry(element: element, accepted: now))
        return true
    }

    mutating func next() -> Entry? { self.returned.popFirst() ?? self.waiting.popFirst() }

    /// Puts back an entry that was refused unprocessed, or could not start after all; the limit does not apply, because
    /// the entry was counted before.
    mutating func putBack(_ entry: Entry) {
        guard let started = entry.started else { return self.waiting.prepend(entry) }
        // The place is usually near the end, so the search begins there.
        var index = self.returned.endIndex
        while index > self.returned.startIndex, let before = self.returned[index - 1].started, before > started {
            index -= 1
        }
        self.returned.insert(entry, at: index)
    }

    /// Notes that an answer arrived, so the queue makes progress.
    mutating func progressed(now: NIODeadline) { self.lastProgress = now }

    /// Returns the deadline of an entry: `requestTimeout` after its first start; for an entry that never started,
    /// `requestTimeout` after its arrival or the last answer, and in any case `queueTimeout` after its arrival.
    func deadline(of entry: Entry) -> NIODeadline {
        if let started = entry.started { return started + self.requestTimeout }
        return min(entry.accepted + self.queueTimeout, max(entry.accepted, self.lastProgress) + self.requestTimeout)
    }

    /// Removes and returns the entries that have waited too long, the refused ones first. The first entry of either
    /// list has that list's earliest deadline.
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

/// One notification in progress inside the client.
struct PendingPush {
    let notification: PushNotification
    /// The request's number, or its place in `batch`.
    let number: UInt64
    /// The call of `send` that waits for the outcome; nil if the reply goes to `onReplies`.
    let batch: PushBatch?
    /// `apns-id`, made once so that a retry carries the same value.
    let identifier: NotificationIdentifier
}
