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
    /// The longest of these waits, as an attempt of `ConnectBackoff`; low, because such connections are of some use.
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

/// The load and health of one open connection.
struct ConnectionLoad: Hashable {
    let id: Int
    var openStreams = 0
    /// The limit of open streams, as in `ConnectionStateMachine.limit`.
    var limit = 1
    /// The number of requests that it accepts at this moment; 0 also while its socket or its peer is slow.
    var freeStreams = 0
    /// The order number of the last request started on the connection; it grows with each request of the client.
    var lastStarted: UInt64 = 0
    /// The share of failures in 1,024ths, as in `ConnectionStateMachine.failureShare`.
    var failureShare = 0
    /// The time when the failures began.
    var failingSince: NIODeadline?
    /// The time of the last answer that is not a failure.
    var lastGoodAnswer: NIODeadline?

    /// The share of failures at which a connection is replaced, after seven in a row, if another connection has at most
    /// a tenth of its share. If all connections fail alike, that is hardly ever so.
    static let illShare = 200
    static let illRatio = 10

    /// The number of streams with the next request, weighted by failures: a connection that fails every request
    /// immediately always has the fewest in flight and must not attract the traffic. If all requests fail, a stream
    /// counts as 33.
    private var cost: Int { (self.openStreams + 1) * (32 + self.failureShare) }

    /// Returns true if the next request goes to this connection rather than to the other: the least cost first, among
    /// equals the longest idle, so that each connection proves from time to time that it works.
    func isBetter(than other: Self) -> Bool {
        (self.cost, self.lastStarted) < (other.cost, other.lastStarted)
    }

    /// Returns the connection for the next request; nil if none has a free stream.
    static func best(_ loads: some Sequence<Self>) -> Self? {
        var best: Self?
        for load in loads where load.freeStreams > 0 {
            if let leader = best, !load.isBetter(than: leader) { continue }
            best = load
        }
        return best
    }

    /// Returns the identifier of a connection that fails repeatedly while another has been healthy in the meantime: the
    /// fault is its host's and not that of APNs (pushy#529).
    static func ill(among loads: [Self]) -> Int? {
        loads.first { load in
            guard load.failureShare >= Self.illShare, let since = load.failingSince else { return false }
            return loads.contains { other in
                guard other.id != load.id, let good = other.lastGoodAnswer else { return false }
                return other.failureShare * Self.illRatio <= load.failureShare && good > since
            }
        }?.id
    }
}

/// Decides which of a host's addresses the next connection goes to. A value: the clock is an argument.
///
/// The order is by recent failure of the address; then by its number of connections, which spreads them; then by recent
/// failure of any address of its family, so that a network without IPv6 costs little; then the families alternate.
/// Source: RFC 8305 §4
struct AddressSelector {
    private var failed: [SocketAddress: NIODeadline] = [:]
    private let memory: TimeAmount
    /// The maximum number of addresses, more than any name has: a name whose addresses change constantly must not fill
    /// memory.
    static let most = 64

    /// - Parameter memory: the time during which a failure counts.
    init(memory: TimeAmount) { self.memory = memory }

    mutating func failed(_ address: SocketAddress, now: NIODeadline) {
        self.failed = self.failed.filter { now - $0.value < self.memory }
        if self.failed.count >= Self.most, let oldest = self.failed.min(by: { $0.value < $1.value }) {
            self.failed[oldest.key] = nil
        }
        self.failed[address] = now
    }

    mutating func worked(_ address: SocketAddress) {
        // Each answer calls this, and there is hardly ever a failure to forget.
        if !self.failed.isEmpty { self.failed[address] = nil }
    }

    /// Sorts the addresses for the next connection.
    ///
    /// - Parameters:
    ///   - addresses: in the resolver's order.
    ///   - inUse: the number of connections that each address has.
    /// - Returns: each address once, in the order in which to try them.
    func order(_ addresses: [SocketAddress], inUse: [SocketAddress: Int], now: NIODeadline) -> [SocketAddress] {
        let recent = self.failed.filter { now - $0.value < self.memory }
        let badFamilies = Set(recent.keys.map(\.isIPv6))
        let ranked = self.interleaved(addresses).enumerated().map { place, address in
            (
                rank: (
                    recent[address] == nil ? 0 : 1, inUse[address] ?? 0, badFamilies.contains(address.isIPv6) ? 1 : 0,
                    place
                ), address: address
            )
        }
        return ranked.sorted { $0.rank < $1.rank }.map(\.address)
    }

    /// Returns each address once, alternately of each family, beginning with the family of the first.
    private func interleaved(_ addresses: [SocketAddress]) -> [SocketAddress] {
        var unique: [SocketAddress] = []
        for address in addresses where !unique.contains(address) && unique.count < Self.most { unique.append(address) }
        guard let isFirstIPv6 = unique.first?.isIPv6 else { return [] }
        var first = unique.filter { $0.isIPv6 == isFirstIPv6 }[...]
        var second = unique.filter { $0.isIPv6 != isFirstIPv6 }[...]
        var result: [SocketAddress] = []
        while !first.isEmpty || !second.isEmpty {
            if let address = first.popFirst() { result.append(address) }
            if let address = second.popFirst() { result.append(address) }
        }
        return result
    }
}

extension SocketAddress {
    fileprivate var isIPv6: Bool { if case .v6 = self { true } else { false } }
}
