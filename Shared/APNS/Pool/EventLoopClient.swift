import DequeModule
import Model
import NIOCore
import NIOPosix
import NIOSSL

/// The part of a client that lives on its event loop: the queue, the connections, the clock.
///
/// `PushPool` decides on opening and retiring connections, `ConnectionLoad` on the connection of the next request; this
/// object executes the decisions. Every change ends in `run`.
final class EventLoopClient {
    let endpoint: APNSEndpoint
    let credential: APNSCredential
    let configuration: APNSConfiguration
    private let eventLoop: any EventLoop
    private let connector: Connector
    private let onReplies: @Sendable ([PushReply]) -> Void
    /// The outcomes to report at the end of the burst.
    private var replies: [PushReply] = []
    private var queue: PushQueue<PendingPush>
    private var pool: PushPool
    private var connections: [PushConnectionHandler] = []
    private var startedCount: UInt64 = 0
    private var lastFailure: APNSError?
    private var isRunning = false
    private var mustRunAgain = false
    /// True if replies are reported at the end of the run in progress.
    private var mustTell = false
    private var alarm: (deadline: NIODeadline, task: Scheduled<Void>)?
    private var closing: [EventLoopPromise<Void>] = []
    private var closeDeadline: NIODeadline?
    private var isStopped = false
    private var generator = IdentifierGenerator()
    /// The connection on which the last attempt for a push token failed: the next attempt prefers another.
    private var avoided: [PushToken: Int] = [:]
    /// The maximum number of entries in `avoided`; a further one clears it first.
    private static let mostAvoided = 1_024

    init(
        endpoint: APNSEndpoint, credential: APNSCredential, proxy: APNSProxy?, configuration: APNSConfiguration,
        tls: NIOSSLContext, eventLoop: any EventLoop, onReplies: @escaping @Sendable ([PushReply]) -> Void
    ) {
        self.endpoint = endpoint
        self.credential = credential
        self.configuration = configuration
        self.eventLoop = eventLoop
        self.onReplies = onReplies
        self.connector = Connector(
            endpoint: endpoint, proxy: proxy, configuration: configuration, tls: tls, eventLoop: eventLoop)
        self.queue = PushQueue(
            limit: configuration.queueLimit, requestTimeout: configuration.requestTimeout,
            queueTimeout: configuration.queueTimeout)
        self.pool = PushPool(configuration: configuration)
    }

    // MARK: From the client's public interface

    func send(_ notifications: [PushNotification], _ continuation: CheckedContinuation<[PushOutcome], Never>) {
        let batch = PushBatch(count: notifications.count, continuation: continuation)
        let now = NIODeadline.now()
        for (index, notification) in notifications.enumerated() {
            self.accept(notification, number: UInt64(index), batch: batch, now: now)
        }
        if !notifications.isEmpty { self.accepted(now: now) }
    }

    func submit(_ requests: [PushRequest]) {
        let now = NIODeadline.now()
        for request in requests { self.accept(request.notification, number: request.number, batch: nil, now: now) }
        self.accepted(now: now)
    }

    func recall() {
        let now = NIODeadline.now()
        let error = APNSError(.closed, "waiting for a free stream: taken back")
        for entry in self.queue.takeAll() {
            self.complete(entry.element, .unanswered(error), started: entry.started, now: now)
        }
        self.run()
    }

    func close(_ promise: EventLoopPromise<Void>) {
        self.closing.append(promise)
        if self.closeDeadline == nil { self.closeDeadline = .now() + self.configuration.closeTimeout }
        self.run()
    }

    func snapshot(now: NIODeadline) -> APNSSnapshot {
        var snapshot = APNSSnapshot()
        for slot in self.pool.slots {
            let state: APNSSnapshot.ConnectionState =
                switch slot.state {
                case .connecting: .connecting
                case .open: .open
                case .draining: .draining
                }
            snapshot.connections[state, default: 0] += 1
        }
        if self.pool.isBackingOff { snapshot.connections[.backingOff] = 1 }
        for connection in self.connections {
            snapshot.streamsInUse += connection.machine.openStreams
            if connection.machine.phase == .open { snapshot.streamLimit += connection.machine.limit }
        }
        snapshot.queued = self.queue.count
        snapshot.oldestQueued = self.queue.oldestAccepted.map { .nanoseconds((now - $0).nanoseconds) }
        snapshot.lastFailure = self.lastFailure
        return snapshot
    }

    private func accept(_ notification: PushNotification, number: UInt64, batch: PushBatch?, now: NIODeadline) {
        let push = PendingPush(
            notification: notification, number: number, batch: batch,
            identifier: NotificationIdentifier(using: &self.generator))
        guard self.closeDeadline == nil else {
            let error = APNSError(.closed, "sending: the client is closed")
            return self.complete(push, .unanswered(error), started: nil, now: now)
        }
        if !self.queue.append(push, now: now) {
            let error = APNSError(.queueFull, "sending: \(self.queue.count) notifications wait")
            self.complete(push, .unanswered(error), started: nil, now: now)
        }
    }

    private func accepted(now: NIODeadline) {
        if self.closeDeadline == nil { self.pool.wanted() }
        self.turnPool(now: now)
        self.run()
    }

    // MARK: From the connections

    func connected(_ connection: PushConnectionHandler) {
        self.pool.opened(connection.id)
        self.report(.connected)
    }

    /// Puts back a request that was refused unprocessed.
    func putBack(_ entry: PushQueue<PendingPush>.Entry) { self.queue.putBack(entry) }

    /// Notes that a request failed, possibly because of its connection.
    func failed(_ push: PendingPush, on connection: PushConnectionHandler) {
        guard self.connections.count > 1 else { return }
        if self.avoided.count >= Self.mostAvoided { self.avoided.removeAll(keepingCapacity: true) }
        self.avoided[push.notification.deviceToken] = connection.id
    }

    func answered(_ answer: PushAnswer, _ connection: PushConnectionHandler, isHealthy: Bool, now: NIODeadline) {
        if isHealthy {
            self.pool.proven(connection.id)
            self.connector.worked(connection.address)
        }
        self.lastFailure =
            answer.isForeign ? APNSError(.protocolViolation, PushRetry.foreign(answer.status).reason) : nil
        self.queue.progressed(now: now)
    }

    /// Drains all connections after APNs has refused their certificate; requests in flight may still be answered. New
    /// connections that are refused as well count as failures, so the waits before the next ones grow.
    ///
    /// Source: Wallet Orders §4.5
    func credentialRefused(now: NIODeadline) {
        for connection in self.connections { connection.retire(.credential, now: now) }
    }

    /// Replaces a connection that accepts no more requests; it still finishes those in flight.
    func retired(_ connection: PushConnectionHandler) {
        let now = NIODeadline.now()
        self.pool.retired(connection.id, isFault: connection.isFaulted, now: now, jitter: self.jitter())
        if let reason = connection.machine.retirement {
            self.report(.replaced(reason))
            if [.timeouts, .silence, .serverErrors, .foreign].contains(reason) {
                self.connector.failed(connection.address, now: now)
            }
        }
        self.turnPool(now: now)
    }

    /// Removes a connection, or an attempt to connect, that has ended.
    ///
    /// - Parameter error: nil if it ended as intended.
    func ended(_ connection: PushConnectionHandler, _ error: APNSError?) {
        let now = NIODeadline.now()
        let slot = self.pool.slots.first { $0.id == connection.id && $0.state != .draining }
        if slot != nil, connection.machine.retirement == .silence {
            self.report(.replaced(.silence))
            self.connector.failed(connection.address, now: now)
            // A peer that forgot one connection may have forgotten the others.
            for other in self.connections where other !== connection { other.doubt(now: now) }
        } else if let slot, !slot.isProven {
            self.connector.failed(connection.address, now: now)
        }
        self.connections.removeAll { $0 === connection }
        self.pool.ended(connection.id, isFault: connection.isFaulted, now: now, jitter: self.jitter())
        if let error {
            self.lastFailure = error
            self.report(.disconnected(error))
            if error.code == .credential { self.credentialRefused(now: now) }
        }
        self.turnPool(now: now)
        self.run()
    }

    func report(_ event: APNSEvent) { self.configuration.onEvent?(event) }

    /// Gives a request its outcome. No other function does.
    func complete(_ push: PendingPush, _ outcome: PushOutcome, started: NIODeadline?, now: NIODeadline) {
        if let batch = push.batch { return batch.complete(Int(clamping: push.number), outcome) }
        let elapsed = started.map { Duration.nanoseconds((now - $0).nanoseconds) }
        self.replies.append(PushReply(number: push.number, outcome: outcome, elapsed: elapsed))
    }

    // MARK: The loop

    /// Starts all requests that can start, writes them and processes the results, until nothing more happens.
    ///
    /// The functions called from here may call it again: the outer call does the work.
    /// - Parameter isAmidBurst: true if more bytes were read and another call follows immediately, which reports all
    ///   answers together.
    func run(isAmidBurst: Bool = false) {
        self.mustRunAgain = true
        if !isAmidBurst { self.mustTell = true }
        guard !self.isRunning else { return }
        self.isRunning = true
        while self.mustRunAgain {
            self.mustRunAgain = false
            let now = NIODeadline.now()
            self.fill(now: now)
            for connection in self.connections where connection.isDirty {
                connection.turn(now: now)
                if connection.isDirty { self.mustRunAgain = true }
            }
            self.finishClosing(now: now)
        }
        self.isRunning = false
        // Also true amid a burst if a connection ended, because there may be no further call then.
        guard self.mustTell else { return }
        self.mustTell = false
        self.tellReplies()
        self.setAlarm(now: .now())
    }

    private func fill(now: NIODeadline) {
        while !self.queue.isEmpty {
            guard let best = ConnectionLoad.best(self.connections.lazy.map(\.load)), let entry = self.queue.next()
            else { return }
            let chosen = self.avoided.isEmpty ? best.id : self.another(than: best.id, for: entry.element)
            guard let connection = self.connections.first(where: { $0.id == chosen }) else {
                return self.queue.putBack(entry)
            }
            var started = entry
            started.started = entry.started ?? now
            self.startedCount &+= 1
            let deadline = self.queue.deadline(of: started)
            if !connection.start(started, order: self.startedCount, now: now, deadline: deadline) {
                self.queue.putBack(entry)
            }
        }
    }

    /// Returns another connection for a request that failed on the chosen connection; the chosen one if the request did
    /// not, or if no other has a free stream.
    private func another(than chosen: Int, for push: PendingPush) -> Int {
        guard self.avoided.removeValue(forKey: push.notification.deviceToken) == chosen else { return chosen }
        return ConnectionLoad.best(self.connections.lazy.map(\.load).filter { $0.id != chosen })?.id ?? chosen
    }

    /// Reports the replies at the end of a burst.
    private func tellReplies() {
        guard !self.replies.isEmpty else { return }
        var delivered: [PushReply] = []
        swap(&delivered, &self.replies)
        self.replies.reserveCapacity(min(delivered.count, 1_024))
        self.onReplies(delivered)
    }

    // MARK: Actions of the pool

    private func turnPool(now: NIODeadline) {
        let loads = self.connections.compactMap { $0.machine.phase == .open ? $0.load : nil }
        for action in self.pool.turn(now: now, oldestQueued: self.queue.oldestAccepted, loads: loads) {
            switch action {
            case .open(let id): self.open(id, now: now)
            case .retire(let id, let reason):
                self.connections.first { $0.id == id }?.retire(reason, now: now)
                self.mustRunAgain = true
            case .reportUnreachable:
                let seconds = self.configuration.reachTimeout.nanoseconds / 1_000_000_000
                let slow = APNSError(.connecting, "connecting to \(self.endpoint): no connection within \(seconds) s")
                self.report(.unreachable(self.lastFailure ?? slow))
            }
        }
    }

    private func open(_ id: Int, now: NIODeadline) {
        let connection: PushConnectionHandler
        do {
            connection = try PushConnectionHandler(id: id, client: self, now: now)
        } catch {
            let failure = APNSError(.connecting, "connecting to \(self.endpoint): \(error)")
            self.lastFailure = failure
            self.report(.disconnected(failure))
            return self.pool.ended(id, now: now, jitter: self.jitter())
        }
        self.connections.append(connection)
        self.connector.connect(connection) {
            self.connections.reduce(into: [:]) { counts, other in
                if other !== connection, !other.machine.isDraining, let address = other.address {
                    counts[address, default: 0] += 1
                }
            }
        }
    }

    private func jitter() -> Double { Double.random(in: 0...1, using: &self.generator) }

    // MARK: The clock

    /// True if something has a deadline that is checked at every tick.
    private var isBusy: Bool {
        !self.queue.isEmpty || !self.closing.isEmpty
            || self.connections.contains { $0.inFlight > 0 || $0.machine.phase != .open || $0.machine.isAsking }
    }

    /// Sets the one alarm to the next time when there may be something to do.
    private func setAlarm(now: NIODeadline) {
        var deadline = self.isStopped ? nil : self.pool.nextTurn
        if self.isBusy { deadline = min(deadline ?? .distantFuture, now + self.configuration.tick) }
        guard let deadline else { return }
        if let alarm = self.alarm {
            guard deadline < alarm.deadline else { return }
            alarm.task.cancel()
        }
        let task = self.eventLoop.assumeIsolated().scheduleTask(deadline: deadline) {
            self.alarm = nil
            self.tick(now: .now())
        }
        self.alarm = (deadline, task)
    }

    private func tick(now: NIODeadline) {
        for entry in self.queue.takeExpired(now: now) {
            let error = self.reasonNotStarted(wasRefused: entry.started != nil)
            self.complete(entry.element, .unanswered(error), started: entry.started, now: now)
        }
        for connection in self.connections { connection.tick(now: now) }
        self.turnPool(now: now)
        self.run()
    }

    /// Returns the reason why a request that waited too long was never sent, or not sent again.
    private func reasonNotStarted(wasRefused: Bool) -> APNSError {
        if let failure = self.lastFailure, [.connecting, .tls, .credential].contains(failure.code) { return failure }
        if wasRefused { return APNSError(.timeout, "sending again what APNs did not process: its time is up") }
        let cause = self.lastFailure.map { ", after \($0)" } ?? ""
        return APNSError(.notStarted, "waiting for a free stream: none within the deadline\(cause)")
    }

    // MARK: Closing

    private func finishClosing(now: NIODeadline) {
        guard let closeDeadline = self.closeDeadline, !self.closing.isEmpty else { return }
        let isDone = self.queue.isEmpty && self.connections.allSatisfy { $0.inFlight == 0 }
        guard isDone || closeDeadline <= now else { return }
        self.isStopped = true
        self.pool.close()
        let error = APNSError(.closed, "waiting for answers: the client was closed")
        for entry in self.queue.takeAll() {
            self.complete(entry.element, .unanswered(error), started: entry.started, now: now)
        }
        // Each connection calls `ended`, and so `run`, when it has ended.
        for connection in self.connections { connection.close(error) }
        guard self.connections.isEmpty else { return }
        self.alarm?.task.cancel()
        self.alarm = nil
        // The caller of `close` must have all replies when it returns.
        self.tellReplies()
        let promises = self.closing
        self.closing.removeAll()
        for promise in promises { promise.succeed() }
    }
}

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

/// One notification in progress inside the client. An immutable object, since queue, stream and outcome hand it on.
final class PendingPush {
    let notification: PushNotification
    /// The request's number, or its place in `batch`.
    let number: UInt64
    /// The call of `send` that waits for the outcome; nil if the reply goes to `onReplies`.
    let batch: PushBatch?
    /// `apns-id`, made once so that a retry carries the same value.
    let identifier: NotificationIdentifier

    init(notification: PushNotification, number: UInt64, batch: PushBatch?, identifier: NotificationIdentifier) {
        self.notification = notification
        self.number = number
        self.batch = batch
        self.identifier = identifier
    }
}
