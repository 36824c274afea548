package import APNS
package import Brands
package import Kafka
package import Model
import Operations
import Synchronization

/// The state machine with its lock, the clients that send its notifications, and the work that it decides on.
///
/// Owner: the worker. Thread: any. Replies arrive on the clients' event loops, and the notifications that they make
/// room for are submitted from there, so that a notification costs no task switch. A client's handlers retain the
/// scheduler, which retains the client until it is replaced or removed. Bounded: by the state machine; clients by the
/// brands.
package final class PushScheduler: Sendable {
    /// The client of a queue, with the options of its notifications.
    package struct Sender: Sendable {
        let client: APNSClient
        let generation: Int
        var options: PushOptions

        package init(client: APNSClient, generation: Int, options: PushOptions) {
            self.client = client
            self.generation = generation
            self.options = options
        }
    }

    /// Work to be done outside the lock.
    private struct Work {
        var finished: [KafkaReceipt] = []
        var sends: [(client: APNSClient, requests: [PushRequest])] = []
        var effects: [PushEffect] = []
        var changes: [(type: OrderTypeIdentifier, change: CredentialQueue.Change)] = []
        /// Clients whose credential is stopped: the requests queued there would be refused one after another for a
        /// minute, and hold back their offsets.
        var recalls: [APNSClient] = []
        var spans: [TraceSpan] = []
    }

    private struct State {
        var machine: PushStateMachine
        var senders: [Int: Sender] = [:]
        var isStopped = false
        var onFinished: @Sendable ([KafkaReceipt]) -> Void = { _ in }
        var onChange: @Sendable (OrderTypeIdentifier, CredentialQueue.Change) -> Void = { _, _ in }
        var onSpan: @Sendable (TraceSpan) -> Void = { _ in }
        /// The longest time that APNs keeps a notification of any brand so far, in seconds.
        var expirationSeconds = PushScheduler.leastExpirationSeconds
    }

    /// Effects that may be in progress before more devices move to the pending topic.
    static let suspensionLimit = 2048
    /// Changes cause notifications for a week even if APNs keeps notifications for less: they may have waited for a
    /// pusher.
    static let leastExpirationSeconds: Int64 = 7 * 24 * 3600
    /// The most devices added, or moved to the pending topic, while the lock is held: replies wait for it on their
    /// event loop.
    private static let chunk = 64

    /// The effects of verdicts, which the worker's tasks perform; each must be followed by `done`.
    package let followUps = FollowUpQueue()
    private let state: Mutex<State>
    private let clock: @Sendable () -> MonotonicTime
    private let wallClock: @Sendable () -> Int64
    private let random: @Sendable () -> Double

    /// - Parameters:
    ///   - pendingTopic: the topic to which keys move that wait too long.
    ///   - clock: the clock for windows, pauses and limits.
    ///   - wallClock: milliseconds since 1970.
    ///   - random: 0 to 1.
    package init(
        limits: PushLimits, pendingTopic: String,
        clock: @escaping @Sendable () -> MonotonicTime = { .now },
        wallClock: @escaping @Sendable () -> Int64,
        random: @escaping @Sendable () -> Double = { Double.random(in: 0...1) }
    ) {
        self.state = Mutex(
            State(machine: PushStateMachine(limits: limits, pendingTopic: pendingTopic, now: clock())))
        self.clock = clock
        self.wallClock = wallClock
        self.random = random
    }

    /// Sets the function that is called with the records that are done; it must not block.
    package func whenFinished(_ call: @escaping @Sendable ([KafkaReceipt]) -> Void) {
        self.state.withLock { $0.onFinished = call }
    }

    /// Sets the function that is called when a credential's health or breaker changes; it must not block.
    func whenChanged(_ call: @escaping @Sendable (OrderTypeIdentifier, CredentialQueue.Change) -> Void) {
        self.state.withLock { $0.onChange = call }
    }

    /// Sets the function that is called with the span of each attempt for a traced change; it must not block. Until
    /// then no span is made.
    func whenTraced(_ call: @escaping @Sendable (TraceSpan) -> Void) {
        self.state.withLock { state in
            state.onSpan = call
            state.machine.spans = []
        }
    }

    // MARK: clients

    /// Installs a client.
    ///
    /// - Returns: the client that it replaces.
    package func install(_ type: OrderTypeIdentifier, _ sender: Sender) -> APNSClient? {
        self.state.withLock { state in
            let queue = state.machine.open(type, generation: sender.generation)
            defer { state.senders[queue] = sender }
            state.expirationSeconds = max(state.expirationSeconds, Int64(sender.options.expirationSeconds))
            return state.senders[queue]?.client
        }
    }

    /// Changes the options of a credential's notifications.
    func change(_ type: OrderTypeIdentifier, _ options: PushOptions) {
        self.state.withLock { state in
            if let queue = state.machine.number(of: type) { state.senders[queue]?.options = options }
            state.expirationSeconds = max(state.expirationSeconds, Int64(options.expirationSeconds))
        }
    }

    /// Removes a brand's client and closes its queue.
    ///
    /// - Returns: the client; nil if there was none.
    func remove(_ type: OrderTypeIdentifier) -> APNSClient? {
        self.state.withLock { state in
            guard let queue = state.machine.number(of: type) else { return nil }
            state.machine.close(type)
            return state.senders.removeValue(forKey: queue)?.client
        }
    }

    /// Removes all clients, which ends all sending.
    ///
    /// - Returns: all clients.
    package func removeAll() -> [APNSClient] {
        self.state.withLock { state in
            defer { state.senders = [:] }
            return state.senders.values.map(\.client)
        }
    }

    // MARK: records

    /// The time, in milliseconds since 1970, before which published changes cause no notification any more: APNs would
    /// not keep a notification for so long either.
    var staleBefore: Int64 { self.wallClock() - self.state.withLock { $0.expirationSeconds } * 1000 }

    /// The number of records that may be added, and the order types whose records must be parked.
    var intake: (room: Int, parked: Set<OrderTypeIdentifier>) {
        self.state.withLock { ($0.machine.room, $0.machine.parkedTypes) }
    }

    /// Returns the number of parked keys that may be looked up, for each of some order types.
    func openings(_ types: some Sequence<OrderTypeIdentifier>) -> [OrderTypeIdentifier: Int] {
        self.state.withLock { state in
            Dictionary(types.map { ($0, state.machine.opening(of: $0)) }) { first, _ in first }
        }
    }

    /// Withdraws records that were added and not looked up.
    ///
    /// - Returns: for each, false if its partition was revoked meanwhile.
    func withdraw(_ numbers: [Int32]) -> [Bool] {
        self.state.withLock { state in numbers.map { state.machine.withdraw($0) } }
    }

    /// Adds records whose devices are not looked up yet.
    ///
    /// - Parameter traces: those of the records that have some, by index, the newest first.
    package func receive(
        _ records: [(receipt: KafkaReceipt, epochMilliseconds: Int64)], traces: [Int: [TraceContext]] = [:]
    ) -> [Int32] {
        self.state.withLock { $0.machine.receive(records, traces: traces) }
    }

    /// True if a record waits for its lookup, or for answers.
    ///
    /// - Parameter number: as returned by `receive`; -1: it was withdrawn.
    func isOpen(_ receipt: KafkaReceipt, _ number: Int32) -> Bool {
        self.state.withLock { $0.machine.isOpen(receipt, number) }
    }

    /// Adds the devices that the records concern, once all are known.
    ///
    /// - Parameter numbers: those of the batch's records, as returned by `receive`.
    package func add(_ found: [PushLookup.Found], _ numbers: [Int32]) {
        let now = self.clock()
        for start in stride(from: 0, to: found.count, by: Self.chunk) {
            let part = found[start..<min(found.count, start + Self.chunk)]
            self.state.withLock { state in
                for one in part { Self.notify(one, numbers, &state.machine, now: now) }
            }
        }
        self.change { state, work in
            state.machine.endLookup(numbers)
            self.sendReady(&state, &work, now: now)
        }
    }

    private static func notify(
        _ found: PushLookup.Found, _ numbers: [Int32], _ machine: inout PushStateMachine, now: MonotonicTime
    ) {
        guard let queue = machine.queue(of: found.orderType) else {
            return machine.unknownTypes.drop(PushStateMachine.brandless)
        }
        for record in found.records {
            let link = PushStateMachine.Link(
                record: numbers[record], device: found.device, order: found.order,
                registeredEpochMilliseconds: found.registration.registeredEpochMilliseconds)
            machine.notify(found.registration.pushToken, of: link, in: queue, now: now)
        }
    }

    /// Drops the records of revoked partitions.
    ///
    /// - Returns: their records that will not be finished here.
    func drop(_ partitions: Set<KafkaPartition>) -> [KafkaReceipt] {
        self.state.withLock { $0.machine.drop(partitions) }
    }

    // MARK: sending

    /// Processes replies of one credential's client.
    package func receive(_ replies: [PushReply], of type: OrderTypeIdentifier, generation: Int) {
        let (now, epochMilliseconds) = (self.clock(), self.wallClock())
        self.change { state, work in
            guard let queue = state.machine.number(of: type) else { return }
            for reply in replies {
                let effect = state.machine.receive(
                    reply, queue: queue, generation: generation, now: now, epochMilliseconds: epochMilliseconds,
                    jitter: self.random())
                if let effect { work.effects.append(effect) }
            }
            for change in state.machine.queues[queue].takeChanges() { work.changes.append((type, change)) }
            // Repeated with each burst: requests may have been on their way to the client at the last recall.
            if state.machine.queues[queue].stop != nil, state.machine.queues[queue].inFlight > 0,
                let sender = state.senders[queue]
            {
                work.recalls.append(sender.client)
            }
            self.sendReady(&state, &work, now: now)
        }
    }

    /// Notes that one credential's client has made a connection: if APNs was unavailable, a probe checks if it is back.
    func connected(_ type: OrderTypeIdentifier) {
        let now = self.clock()
        self.change { state, work in
            guard let queue = state.machine.number(of: type) else { return }
            state.machine.queues[queue].connected(now: now)
            self.sendReady(&state, &work, now: now)
        }
    }

    /// Notes that one credential's client cannot connect to APNs.
    func unreachable(_ type: OrderTypeIdentifier, _ reason: String, generation: Int) {
        let now = self.clock()
        self.change { state, work in
            guard let queue = state.machine.number(of: type) else { return }
            state.machine.queues[queue].unreachable(reason, generation: generation, now: now)
            for change in state.machine.queues[queue].takeChanges() { work.changes.append((type, change)) }
        }
    }

    /// Processes everything that has become due.
    ///
    /// - Returns: the time when something is due next; nil if nothing is.
    @discardableResult
    package func advance() -> MonotonicTime? {
        let (now, openEffects) = (self.clock(), self.followUps.count)
        var next: MonotonicTime?
        self.change { state, work in
            guard !state.isStopped else { return }
            self.sendReady(&state, &work, now: now)
            next = state.machine.due.first
            let most = min(Self.chunk, Self.suspensionLimit - openEffects)
            work.effects += state.machine.suspendStuck(now: now, most: most)
            if most > 0, work.effects.count == most { next = now }
        }
        return next
    }

    /// Notes that an effect was performed.
    ///
    /// - Parameter current: for a token that is gone, the present registrations of its keys.
    package func done(_ effect: PushEffect, current: [RegistrationKey: RegistrationRecord] = [:]) {
        let now = self.clock()
        self.change { state, work in
            let more = state.machine.done(effect, current: current, now: now, jitter: self.random())
            if let more { work.effects.append(more) }
            // Devices that registered again are notified.
            if !current.isEmpty { self.sendReady(&state, &work, now: now) }
        }
    }

    /// Stops sending; notifications in flight still get their verdicts.
    func stop() { self.state.withLock { $0.isStopped = true } }

    /// Returns the events since the last call for each order type; those of all order types without a brand have the
    /// type nil.
    package func takeTallies() -> [(type: OrderTypeIdentifier?, counts: PushCounts)] {
        self.state.withLock { state in
            var counts: [(type: OrderTypeIdentifier?, counts: PushCounts)] = [(nil, state.machine.unknownTypes)]
            state.machine.unknownTypes = PushCounts()
            for queue in state.machine.queues.indices {
                // Order types come from the records' keys: those without a brand must not become labels of metrics.
                let type = state.machine.queues[queue].isOpen ? state.machine.queues[queue].orderType : nil
                counts.append((type, state.machine.queues[queue].counts))
                state.machine.queues[queue].counts = PushCounts()
            }
            return counts
        }
    }

    /// The states of the credentials in use.
    var credentialStates: [(type: OrderTypeIdentifier, health: CredentialHealth.State, breaker: TokenBreaker.State)] {
        self.state.withLock { state in
            state.machine.queues.filter(\.isOpen).map { ($0.orderType, $0.health.state, $0.breaker.state) }
        }
    }

    /// The clients in use.
    var clients: [OrderTypeIdentifier: APNSClient] {
        self.state.withLock { state in
            Dictionary(
                uniqueKeysWithValues: state.senders.map { (state.machine.queues[$0.key].orderType, $0.value.client) })
        }
    }

    /// The counts of the scheduler.
    package var gauges: PushGauges { self.state.withLock { $0.machine.gauges } }

    /// Collects the notifications that each queue may send.
    private func sendReady(_ state: inout State, _ work: inout Work, now: MonotonicTime) {
        guard !state.isStopped else { return }
        state.machine.wake(now: now)
        let epochMilliseconds = self.wallClock()
        for queue in state.machine.queues.indices {
            guard let sender = state.senders[queue], state.machine.queues[queue].hasReady else { continue }
            let due = state.machine.send(queue, now: now, epochMilliseconds: epochMilliseconds)
            if due.isEmpty { continue }
            var notification = PushNotification(
                deviceToken: due[0].token, topic: state.machine.queues[queue].orderType, options: sender.options,
                nowEpochSeconds: epochMilliseconds / 1000)
            let requests = due.map { one in
                notification.deviceToken = one.token
                return PushRequest(number: one.number, notification: notification)
            }
            work.sends.append((sender.client, requests))
        }
    }

    /// Changes the state, and does the resulting work outside the lock.
    private func change(_ body: (inout State, inout Work) -> Void) {
        var work = Work()
        let (onFinished, onChange, onSpan) = self.state.withLock { state in
            body(&state, &work)
            work.finished = state.machine.takeFinished()
            work.spans = state.machine.takeSpans()
            return (state.onFinished, state.onChange, state.onSpan)
        }
        if !work.finished.isEmpty { onFinished(work.finished) }
        for client in work.recalls { client.recall() }
        for (client, requests) in work.sends { client.submit(requests) }
        self.followUps.add(work.effects)
        for (type, change) in work.changes { onChange(type, change) }
        for span in work.spans { onSpan(span) }
    }
}

extension PushNotification {
    /// A notification with its brand's options.
    init(
        deviceToken: PushToken, topic: OrderTypeIdentifier, options: PushOptions, nowEpochSeconds: Int64
    ) {
        self.init(
            deviceToken: deviceToken, topic: topic,
            expirationEpochSeconds: options.expirationEpochSeconds(nowEpochSeconds: nowEpochSeconds))
        self.pushType =
            switch options.kind {
            case .background: .background
            case .alert: .alert
            }
        self.priority = UInt8(options.priority.rawValue)
        self.collapseIdentifier = options.collapseIdentifier
    }
}

/// Work outside the scheduler that must be finished before the records of a notification are done.
package struct PushEffect: Sendable {
    enum Work: Sendable {
        /// Removes registrations with a push token that is gone.
        case retire(InvalidToken)
        /// Publishes that a device was not notified, for each of its orders.
        case report([PushDeadLetter])
        /// Writes to the pending topic that some devices have yet to be notified.
        case suspend([ParkedPush])
    }

    /// The number of the target, returned when the work is done.
    let number: UInt64
    let work: Work
}

/// A push token that APNs reports as gone.
struct InvalidToken: Sendable {
    let token: PushToken
    /// Registrations with it before this moment, in milliseconds since 1970, are removed.
    let moment: Int64
    /// The registrations that led to the notification, each as last looked up.
    let registrations: [RegistrationKey: RegistrationRecord]

    /// Returns true if APNs' answer concerns a registration.
    func means(_ registration: RegistrationRecord) -> Bool {
        registration.pushToken == self.token && registration.registeredEpochMilliseconds < self.moment
    }
}

/// Counts of everything that the scheduler has in hand.
package struct PushGauges: Hashable, Sendable {
    /// Records that are not done.
    var records = 0
    /// Pairs of a device and an order type to be notified, in any place.
    var targets = 0
    /// Targets that wait for the end of their window, for their turn in the hour, or for a retry.
    var waiting = 0
    /// Targets that wait for their turn with their credential.
    var ready = 0
    /// Targets whose notifications are with the clients.
    var inFlight = 0
    /// Targets that wait for an effect, such as the removal of a registration or a dead letter.
    var settling = 0
}

extension PushStateMachine {
    /// The present counts, computed without visiting each target.
    var gauges: PushGauges {
        var gauges = PushGauges()
        gauges.records = self.recordCount
        gauges.targets = self.targetCount
        // Entries of targets that have moved on stay in a queue until their turn; they are rare.
        gauges.ready = self.queues.reduce(0) { $0 + $1.ready.count + $1.suspects.count }
        gauges.inFlight = self.queues.reduce(0) { $0 + $1.inFlight }
        gauges.settling = self.settlingCount
        gauges.waiting = max(0, gauges.targets - gauges.ready - gauges.inFlight - gauges.settling)
        return gauges
    }
}
