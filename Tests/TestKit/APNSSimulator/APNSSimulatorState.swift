import NIOCore

/// The whole state of the simulator. Thread: its one event loop, so nothing here is locked.
///
/// Faults and scenarios are in `APNSSimulatorState+faults.swift`, records in `APNSSimulatorState+journal.swift`.
final class APNSSimulatorState {
    let configuration: APNSSimulatorConfiguration
    let rules: APNSSimulatorRules
    let eventLoop: any EventLoop
    var tokenCheck: APNSSimulatorTokenCheck
    var faults = APNSSimulatorFaults()
    var random: SeededGenerator
    var script: APNSSimulatorScript?
    var listener: APNSSimulatorListener?
    var deliveryRing: APNSSimulatorRing<APNSSimulatorDelivery>
    var eventRing: APNSSimulatorRing<APNSSimulatorEvent>
    /// Deliveries on ended connections whose answers the clients may not have read.
    var unheardRing: APNSSimulatorRing<UInt64>
    var statistics = APNSSimulatorStatistics()
    /// The total shift of the clock by faults.
    var clockShiftMilliseconds: Int64 = 0
    private(set) var connections: [Int: APNSSimulatorConnection] = [:]
    private var reconnects: [String: APNSSimulatorReconnects] = [:]
    private var lastConnection = 0
    private var waiters: [Int: Waiter] = [:]
    private var lastWaiter = 0
    private var topics: [String: String] = [:]
    private var identifiers: SeededGenerator
    private var late = APNSSimulatorLateAnswers()
    private var lateTimer: (deadline: NIODeadline, task: Scheduled<Void>)?

    /// The most requests that may wait for deliveries concurrently.
    static let waiterLimit = 256

    private struct Waiter {
        let after: UInt64
        let promise: EventLoopPromise<Void>
        let deadline: Scheduled<Void>
    }

    init(_ configuration: APNSSimulatorConfiguration, eventLoop: any EventLoop) {
        var system = SystemRandomNumberGenerator()
        self.configuration = configuration
        self.rules = APNSSimulatorRules(topics: configuration.topics)
        self.eventLoop = eventLoop
        self.tokenCheck = APNSSimulatorTokenCheck(keys: configuration.providerKeys)
        self.deliveryRing = APNSSimulatorRing(limit: configuration.journalLimit)
        self.eventRing = APNSSimulatorRing(limit: configuration.journalLimit)
        self.unheardRing = APNSSimulatorRing(limit: configuration.journalLimit)
        self.random = SeededGenerator(seed: configuration.seed)
        self.identifiers = SeededGenerator(seed: system.next())
    }

    /// The simulator's time: the configured clock with the shift by faults.
    var nowEpochMilliseconds: Int64 {
        self.configuration.nowEpochMilliseconds().addingReportingOverflow(self.clockShiftMilliseconds).partialValue
    }

    // MARK: connections

    func open(_ make: (_ number: Int) -> APNSSimulatorConnection) -> APNSSimulatorConnection {
        self.lastConnection += 1
        let connection = make(self.lastConnection)
        self.connections[self.lastConnection] = connection
        self.note(
            .opened(
                authentication: connection.authentication, topic: connection.certificateTopic,
                streamLimit: connection.streamLimit), connection.number)
        let now = self.nowEpochMilliseconds
        if let violation = self.reconnects[connection.certificateTopic ?? ""]?.opened(atMilliseconds: now) {
            self.note(violation, connection.number)
        }
        return connection
    }

    func closed(_ connection: APNSSimulatorConnection, byClient: Bool) {
        guard self.connections.removeValue(forKey: connection.number) != nil else { return }
        self.note(.closed(byClient: byClient, requests: connection.requests), connection.number)
        self.statistics.mostStreams = max(self.statistics.mostStreams, connection.mostStreams)
        for delivery in connection.unheard.ended(nowEpochMilliseconds: self.nowEpochMilliseconds) {
            self.unheardRing.append { _ in delivery }
        }
        guard byClient else { return }
        if self.reconnects.count >= 10_000 { self.reconnects = [:] }
        self.reconnects[connection.certificateTopic ?? "", default: APNSSimulatorReconnects()]
            .closed(atMilliseconds: self.nowEpochMilliseconds)
    }

    // MARK: identifiers

    /// Returns the request's own identifier if it is valid, otherwise a new one.
    func identifier(for request: APNSSimulatorRequest) -> APNSSimulatorIdentifier {
        request.identifier.flatMap { APNSSimulatorIdentifier(canonical: $0) } ?? self.randomIdentifier()
    }

    func randomIdentifier() -> APNSSimulatorIdentifier { .random(using: &self.identifiers) }

    /// Returns the shared copy of a topic's text, so that the journal does not hold one per delivery.
    func interned(_ topic: String) -> String {
        if let known = self.topics[topic] { return known }
        if self.topics.count >= 10_000 { self.topics.removeAll() }
        self.topics[topic] = topic
        return topic
    }

    // MARK: late answers

    /// Sends an answer after a delay in milliseconds.
    func answerLater(
        _ answer: APNSSimulatorAnswer, _ identifier: APNSSimulatorIdentifier, connection: Int, stream: Int,
        after milliseconds: Int
    ) {
        let deadline = NIODeadline.now() + .milliseconds(Int64(milliseconds))
        self.late.add(answer, identifier, connection: connection, stream: stream, at: deadline)
        self.setLateTimer()
    }

    private func setLateTimer() {
        guard let next = self.late.next else { return }
        if let timer = self.lateTimer {
            guard next < timer.deadline else { return }
            timer.task.cancel()
        }
        let task = self.eventLoop.assumeIsolated().scheduleTask(deadline: next) { self.giveLateAnswers() }
        self.lateTimer = (next, task)
    }

    private func giveLateAnswers() {
        self.lateTimer = nil
        // Answers due within the same millisecond are sent together.
        let now = NIODeadline.now() + .milliseconds(1)
        var touched: Set<Int> = []
        while let entry = self.late.take(due: now) {
            guard let connection = self.connections[entry.connection] else { continue }
            connection.send(entry.answer, entry.identifier, on: entry.stream)
            touched.insert(entry.connection)
        }
        for number in touched { self.connections[number]?.context?.flush() }
        self.setLateTimer()
    }

    // MARK: waiting for deliveries

    /// Returns a future that succeeds when there is a newer delivery or at the deadline, and immediately if
    /// `waiterLimit` requests already wait.
    func wait(after sequence: UInt64, atMost wait: TimeAmount) -> EventLoopFuture<Void> {
        guard self.deliveryRing.last <= sequence, wait > .zero, self.waiters.count < Self.waiterLimit else {
            return self.eventLoop.makeSucceededVoidFuture()
        }
        self.lastWaiter += 1
        let number = self.lastWaiter
        let promise = self.eventLoop.makePromise(of: Void.self)
        let deadline = self.eventLoop.assumeIsolated().scheduleTask(in: wait) { self.finish(number) }
        self.waiters[number] = Waiter(after: sequence, promise: promise, deadline: deadline)
        return promise.futureResult
    }

    /// Ends all waits and the scenario, and closes the port, so that nothing is left when the simulator ends.
    func end() {
        for number in Array(self.waiters.keys) { self.finish(number) }
        self.script = nil
        self.listener?.end()
    }

    /// Wakes the requests that wait for newer deliveries.
    func wake() {
        guard !self.waiters.isEmpty else { return }
        for (number, waiter) in self.waiters where waiter.after < self.deliveryRing.last { self.finish(number) }
    }

    private func finish(_ number: Int) {
        guard let waiter = self.waiters.removeValue(forKey: number) else { return }
        waiter.deadline.cancel()
        waiter.promise.succeed()
    }
}
