import NIOCore

/// Everything the simulator knows. Lives on its one event loop, so nothing here is locked.
final class APNSSimulatorState {
    let configuration: APNSSimulatorConfiguration
    let rules: APNSSimulatorRules
    let eventLoop: any EventLoop
    var tokenCheck: APNSSimulatorTokenCheck
    var faults = APNSSimulatorFaults()
    private var journal: APNSSimulatorJournal
    private(set) var connections: [Int: APNSSimulatorConnection] = [:]
    private var lastConnection = 0
    private var waiters: [Int: Waiter] = [:]
    private var lastWaiter = 0
    private var topics: [String: String] = [:]
    var random = SystemRandomNumberGenerator()

    /// How many may wait for deliveries at once.
    static let waiterLimit = 256

    private struct Waiter {
        let after: UInt64
        let promise: EventLoopPromise<Void>
        let deadline: Scheduled<Void>
    }

    init(_ configuration: APNSSimulatorConfiguration, eventLoop: any EventLoop) {
        self.configuration = configuration
        self.rules = APNSSimulatorRules(topics: configuration.topics)
        self.eventLoop = eventLoop
        self.tokenCheck = APNSSimulatorTokenCheck(keys: configuration.providerKeys)
        self.journal = APNSSimulatorJournal(limit: configuration.journalLimit)
    }

    // MARK: connections

    func open(_ make: (_ number: Int) -> APNSSimulatorConnection) -> APNSSimulatorConnection {
        self.lastConnection += 1
        let connection = make(self.lastConnection)
        self.connections[self.lastConnection] = connection
        return connection
    }

    func close(_ number: Int) { self.connections[number] = nil }

    /// The stream limit of a connection whose client has shown who it is.
    func streamLimit(connection: Int) -> Int {
        self.faults.streamLimit(connection: connection) ?? self.configuration.maxConcurrentStreams
    }

    // MARK: faults

    /// Puts a fault up, or does at once what is immediate.
    /// - Returns: the fault's number (nil for an immediate one) and how many connections were touched; nil when too
    ///   many
    ///   stand.
    func add(_ fault: APNSSimulatorFault) -> (number: Int?, connections: Int)? {
        let touched = self.connections.values.filter { fault.connection == nil || $0.number == fault.connection }
        if fault.isImmediate {
            for connection in touched { connection.act(fault.effect) }
            return (nil, touched.count)
        }
        guard let number = self.faults.add(fault) else { return nil }
        guard case .maxConcurrentStreams = fault.effect else { return (number, 0) }
        for connection in touched { connection.announceStreamLimit() }
        return (number, touched.count)
    }

    /// Takes all faults down; connections read again and have their usual stream limit.
    func clearFaults() {
        self.faults.removeAll()
        for connection in self.connections.values { connection.recover() }
    }

    // MARK: deliveries

    /// Writes a delivery down and wakes who waits for it.
    func record(_ make: (_ sequence: UInt64) -> APNSSimulatorDelivery) {
        self.journal.append(make)
        if !self.waiters.isEmpty { self.wake() }
    }

    func deliveries(after sequence: UInt64, limit: Int) -> APNSSimulatorDeliveries {
        self.journal.deliveries(after: sequence, limit: limit)
    }

    func clearDeliveries() { self.journal.removeAll() }

    /// Succeeds when there is something newer, or when the time is over.
    func wait(after sequence: UInt64, atMost wait: TimeAmount) -> EventLoopFuture<Void> {
        guard self.journal.last <= sequence, wait > .zero, self.waiters.count < Self.waiterLimit else {
            return self.eventLoop.makeSucceededVoidFuture()
        }
        self.lastWaiter += 1
        let number = self.lastWaiter
        let promise = self.eventLoop.makePromise(of: Void.self)
        let deadline = self.eventLoop.assumeIsolated().scheduleTask(in: wait) { self.finish(number) }
        self.waiters[number] = Waiter(after: sequence, promise: promise, deadline: deadline)
        return promise.futureResult
    }

    /// Lets everybody who waits go, so that nothing is left when the simulator ends.
    func releaseWaiters() { for number in Array(self.waiters.keys) { self.finish(number) } }

    private func wake() {
        for (number, waiter) in self.waiters where waiter.after < self.journal.last { self.finish(number) }
    }

    private func finish(_ number: Int) {
        guard let waiter = self.waiters.removeValue(forKey: number) else { return }
        waiter.deadline.cancel()
        waiter.promise.succeed()
    }

    /// One copy of each topic's text for the whole journal.
    func interned(_ topic: String) -> String {
        if let known = self.topics[topic] { return known }
        if self.topics.count >= 10_000 { self.topics.removeAll() }
        self.topics[topic] = topic
        return topic
    }
}
