import NIOCore

/// Decides when a connection is opened, retired or replaced. A value: no socket, no clock.
///
/// A slot goes `connecting` -> `open` -> `draining` -> gone; each may be gone directly, none goes back. The pool has a
/// target number of connections, and every turn takes one step towards it: at most one opening per `openSpacing`, and
/// none before the backoff is over. A replacement is therefore wanted as soon as a connection starts to drain.
/// Source: Wallet Orders §4.5: keep connections, several of them, opening and closing slowly
struct PushPool {
    /// A phase in the life of a connection.
    enum State: Hashable { case connecting, open, draining }

    /// A connection from the pool's point of view.
    struct Slot: Hashable {
        let id: Int
        var state: State
        let opened: NIODeadline
        /// True if a healthy answer arrived on it; a handshake alone proves nothing.
        var isProven = false
    }

    /// An action for the driver.
    enum Action: Hashable {
        /// Open a connection; the driver calls `opened` or `ended` afterwards.
        case open(Int)
        /// Stop new requests on a connection; the reason is nil if it is not needed.
        case retire(Int, APNSEvent.Replacement?)
        /// Report that requests wait and no connection can be established.
        case reportUnreachable
    }

    private(set) var slots: [Slot] = []
    /// The target number of connections that accept requests; 0 until there is something to send.
    private(set) var target = 0
    /// The number of failed connections since the last healthy answer on a newer one; the waits grow with it.
    private(set) var failures = 0
    private let least: Int
    private let most: Int
    private let configuration: APNSConfiguration
    private var nextID = 0
    private var lastOpen: NIODeadline?
    private var notBefore: NIODeadline?
    /// The time that replaces `notBefore` while something is queued.
    private var notBeforeQueued: NIODeadline?
    private var hasQueued = false
    /// The number of consecutive connections that worked but ended within `shortLife`, and the time when the last of
    /// them ended.
    private var shortLives = 0
    private var lastShortEnd: NIODeadline?
    private var lastFailedID = -1
    private var pressureSince: NIODeadline?
    private var reach = Reach()
    private var window = ShrinkWindow()
    private var isClosed = false

    init(configuration: APNSConfiguration) {
        self.configuration = configuration
        self.least = max(1, configuration.connections.lowerBound)
        self.most = max(self.least, configuration.connections.upperBound)
    }

    /// The number of connections that accept requests, or will.
    var liveCount: Int { self.slots.count { $0.state != .draining } }
    /// True if a wanted connection waits because the last attempt failed.
    var isBackingOff: Bool {
        !self.isClosed && self.failures > 0 && self.liveCount < self.target
            && !self.slots.contains { $0.state == .connecting }
    }

    // MARK: Events

    /// Notes that there is something to send.
    mutating func wanted() { self.target = max(self.target, self.least) }

    mutating func opened(_ id: Int) { self.update(id) { if $0.state == .connecting { $0.state = .open } } }

    /// Notes that a healthy answer arrived on a connection.
    mutating func proven(_ id: Int) {
        guard let index = self.slots.firstIndex(where: { $0.id == id }), !self.slots[index].isProven else { return }
        self.slots[index].isProven = true
        // An older connection that works is no evidence that new ones can be established.
        if id > self.lastFailedID { self.failures = 0 }
    }

    /// Notes that a connection accepts no more requests, by its peer's decision or ours. A second call changes nothing.
    ///
    /// - Parameter isFault: true if its peer reported an error of ours.
    mutating func retired(_ id: Int, isFault: Bool = false, now: NIODeadline, jitter: Double) {
        guard let slot = self.slots.first(where: { $0.id == id }), slot.state != .draining else { return }
        self.update(id) { $0.state = .draining }
        self.judgeLife(of: slot, isFault: isFault, now: now, jitter: jitter)
    }

    /// Removes a connection that has ended, or an attempt to establish it.
    mutating func ended(_ id: Int, isFault: Bool = false, now: NIODeadline, jitter: Double) {
        guard let slot = self.slots.first(where: { $0.id == id }) else { return }
        self.slots.removeAll { $0.id == id }
        guard slot.state != .draining else { return }
        // Many clients may have lost their connections at the same moment.
        self.wait(self.configuration.backoff.delay(attempt: 0, jitter: jitter), now: now)
        self.judgeLife(of: slot, isFault: isFault, now: now, jitter: jitter)
    }

    mutating func close() { self.isClosed = true }

    // MARK: Decisions

    /// Takes one step towards the target. Call it after every change, and at `nextTurn`.
    ///
    /// - Parameters:
    ///   - oldestQueued: the time when the oldest request that waits for a stream was accepted; nil if none waits.
    ///   - loads: the loads of the open connections.
    mutating func turn(now: NIODeadline, oldestQueued: NIODeadline?, loads: [ConnectionLoad]) -> [Action] {
        self.hasQueued = oldestQueued != nil
        guard self.target > 0, !self.isClosed else { return [] }
        var actions: [Action] = []
        let loads = loads.filter { load in self.slots.contains { $0.id == load.id && $0.state == .open } }
        if let ill = ConnectionLoad.ill(among: loads) {
            self.update(ill) { $0.state = .draining }
            actions.append(.retire(ill, .serverErrors))
        }
        let hasConnection = self.slots.contains { $0.state == .open }
        if self.reach.isLost(isWaiting: self.hasQueued, hasConnection, self.configuration.reachTimeout, now: now) {
            actions.append(.reportUnreachable)
        }
        self.judgePressure(now: now, oldestQueued: oldestQueued, loads: loads)
        if let surplus = self.surplus(now: now, loads: loads) {
            self.update(surplus) { $0.state = .draining }
            self.target = max(self.least, self.target - 1)
            actions.append(.retire(surplus, nil))
        }
        if let earliest = self.earliestOpen, earliest <= now {
            let id = self.nextID
            self.nextID += 1
            self.lastOpen = now
            self.slots.append(Slot(id: id, state: .connecting, opened: now))
            actions.append(.open(id))
        }
        return actions
    }

    /// The time when a turn has something to do although nothing has happened; nil for never.
    var nextTurn: NIODeadline? {
        guard self.target > 0, !self.isClosed else { return nil }
        let shrink = self.liveCount > self.least ? self.window.end(self.configuration.shrinkAfter) : nil
        return [self.earliestOpen, shrink].compactMap(\.self).min()
    }

    // MARK: Internals

    /// The time when the next connection may be opened; nil while none is wanted.
    private var earliestOpen: NIODeadline? {
        // Draining connections have their own deadline; this many mean a peer that answers everything with GOAWAY.
        guard self.liveCount < self.target, self.slots.count < 2 * self.most else { return nil }
        // While attempts fail, only one is made at a time.
        if self.failures > 0, self.slots.contains(where: { $0.state == .connecting }) { return nil }
        let spaced = self.lastOpen.map { $0 + self.configuration.openSpacing }
        let rested = self.hasQueued ? self.notBeforeQueued : self.notBefore
        return max(spaced ?? .distantPast, rested ?? .distantPast)
    }

    private func hasWorked(_ slot: Slot, now: NIODeadline) -> Bool {
        // A connection that was open for long without being needed did not fail either.
        slot.isProven || (slot.state != .connecting && now - slot.opened >= self.configuration.provenAge)
    }

    private mutating func countFailure(_ id: Int, now: NIODeadline, jitter: Double) {
        self.failures = min(self.failures + 1, 1_000)
        self.lastFailedID = max(self.lastFailedID, id)
        self.wait(self.configuration.backoff.delay(attempt: self.failures, jitter: jitter), now: now)
    }

    /// The number of consecutive short lives after which the next connection waits.
    private static let shortLivesToWait = 3
    /// The longest of these waits, as an attempt of `Backoff`; low, because such connections are of some use.
    private static let lastShortLifeAttempt = 3

    /// Counts a connection that did not work as a failure, and delays the next one after several short-lived
    /// connections in a row, or after one that ended because of an error of ours.
    private mutating func judgeLife(of slot: Slot, isFault: Bool, now: NIODeadline, jitter: Double) {
        guard self.hasWorked(slot, now: now) else { return self.countFailure(slot.id, now: now, jitter: jitter) }
        if isFault {
            self.shortLives = max(self.shortLives, Self.shortLivesToWait - 1) + 1
        } else if now - slot.opened >= self.configuration.shortLife {
            self.shortLives = 0
        } else if slot.opened >= self.lastShortEnd ?? .distantPast {
            // Connections that were open at the same time end for the same reason, so they count as one.
            self.shortLives += 1
            self.lastShortEnd = now
        }
        guard self.shortLives >= Self.shortLivesToWait else { return }
        let attempt = min(self.shortLives - Self.shortLivesToWait + 1, Self.lastShortLifeAttempt)
        self.wait(self.configuration.backoff.delay(attempt: attempt, jitter: jitter), now: now)
    }

    private mutating func wait(_ delay: TimeAmount, now: NIODeadline) {
        self.notBefore = max(self.notBefore ?? .distantPast, now + delay)
        let queued = now + min(delay, self.configuration.backoff.mostQueued)
        self.notBeforeQueued = max(self.notBeforeQueued ?? .distantPast, queued)
    }

    /// Raises the target by one when requests have waited too long for some time and every connection is full.
    private mutating func judgePressure(now: NIODeadline, oldestQueued: NIODeadline?, loads: [ConnectionLoad]) {
        let isLate = oldestQueued.map { now - $0 >= self.configuration.growAge } ?? false
        let isFull = !loads.isEmpty && loads.allSatisfy { $0.freeStreams == 0 }
        self.window.record(loads, isPressed: isLate && isFull, now: now)
        guard isLate, isFull, self.failures == 0, !self.slots.contains(where: { $0.state == .connecting }) else {
            self.pressureSince = nil
            return
        }
        let since = self.pressureSince ?? now
        self.pressureSince = since
        guard now - since >= self.configuration.growSustain, self.liveCount >= self.target else { return }
        self.target = min(self.most, self.target + 1)
        self.pressureSince = nil
    }

    /// Returns a connection that was not needed during a whole window; nil if there is none.
    private mutating func surplus(now: NIODeadline, loads: [ConnectionLoad]) -> Int? {
        guard let end = self.window.end(self.configuration.shrinkAfter), end <= now else { return nil }
        let closed = self.window
        self.window = ShrinkWindow()
        guard self.target > self.least, self.liveCount >= self.target, loads.count > 1, !closed.wasPressed,
            let leaving = loads.min(by: { ($0.openStreams, -$0.id) < ($1.openStreams, -$1.id) })
        else { return nil }
        let room = loads.reduce(0) { $0 + ($1.id == leaving.id ? 0 : $1.limit) }
        return closed.mostStreams <= room / 2 ? leaving.id : nil
    }

    private mutating func update(_ id: Int, _ change: (inout Slot) -> Void) {
        guard let index = self.slots.firstIndex(where: { $0.id == id }) else { return }
        change(&self.slots[index])
    }
}

/// The time for which requests have waited without any connection.
private struct Reach {
    private var since: NIODeadline?
    private var isReported = false

    /// - Returns: true once when that time reaches a limit, and again only after there was a connection.
    mutating func isLost(isWaiting: Bool, _ hasConnection: Bool, _ limit: TimeAmount, now: NIODeadline) -> Bool {
        if hasConnection { self.isReported = false }
        guard isWaiting, !hasConnection else {
            self.since = nil
            return false
        }
        let since = self.since ?? now
        self.since = since
        guard now - since >= limit, !self.isReported else { return false }
        self.isReported = true
        return true
    }
}

/// The highest load of a period, which shows if one connection fewer would have been enough.
private struct ShrinkWindow {
    private var start: NIODeadline?
    private(set) var mostStreams = 0
    private(set) var wasPressed = false

    mutating func record(_ loads: [ConnectionLoad], isPressed: Bool, now: NIODeadline) {
        self.start = self.start ?? now
        self.mostStreams = max(self.mostStreams, loads.reduce(0) { $0 + $1.openStreams })
        self.wasPressed = self.wasPressed || isPressed
    }

    func end(_ length: TimeAmount) -> NIODeadline? { self.start.map { $0 + length } }
}
