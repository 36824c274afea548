import NIOCore

extension APNSSimulatorState {
    /// Adds a fault, or performs an immediate one.
    /// - Returns: the fault's number (nil for one that was performed immediately) and the number of affected
    ///   connections; nil if there are too many faults.
    @discardableResult
    func add(_ fault: APNSSimulatorFault) -> (number: Int?, connections: Int)? {
        var fault = fault
        if let choice = fault.choice {
            fault.connection = self.chosen(choice)
            fault.choice = nil
        }
        let touched = self.connections.values.filter { fault.connection == nil || $0.number == fault.connection }
        if fault.stage == .now {
            self.do(fault.effect, on: touched)
            self.note(.fault(number: nil, connections: touched.count), 0)
            return (nil, touched.count)
        }
        let onlyThese = fault.stage == .connections && fault.isImmediate
        guard let number = self.faults.add(fault, connections: onlyThese ? Set(touched.map(\.number)) : nil) else {
            return nil
        }
        let isFelt = fault.stage == .connections
        self.note(.fault(number: number, connections: isFelt ? touched.count : 0), 0)
        self.end(number, after: fault.lifetimeMilliseconds)
        self.feel()
        return (number, isFelt ? touched.count : 0)
    }

    /// Adds a condition to a connection because of a request.
    func befall(
        _ connection: APNSSimulatorConnection, _ condition: APNSSimulatorCondition, lifetimeMilliseconds: Int?
    ) {
        let fault = APNSSimulatorFault(
            .condition(condition), connection: connection.number, lifetimeMilliseconds: lifetimeMilliseconds)
        guard let number = self.faults.add(fault) else { return }
        self.note(.fault(number: number, connections: 1), connection.number)
        self.end(number, after: lifetimeMilliseconds)
        connection.set(self.faults.conditions(connection: connection.number))
    }

    /// Removes all faults: connections recover and the port opens. A running scenario continues.
    func clearFaults() {
        self.faults.removeAll()
        self.feel()
    }

    /// Returns the fault for a request; nil if none applies.
    func hit(token: some StringProtocol, connection: Int) -> APNSSimulatorFault? {
        self.faults.hit(token: token, connection: connection, using: &self.random)
    }

    /// Returns the fault for a new connection, before (`isAccepted` false) or after its handshake; nil if none applies.
    func hitConnect(isAccepted: Bool) -> APNSSimulatorConnectFault? {
        self.faults.hitConnect(isAccepted: isAccepted, using: &self.random)
    }

    private func `do`(_ effect: APNSSimulatorFault.Effect, on connections: [APNSSimulatorConnection]) {
        if case .clock(let shift) = effect {
            self.clockShiftMilliseconds = self.clockShiftMilliseconds.addingReportingOverflow(shift).partialValue
        }
        for connection in connections { connection.act(effect) }
    }

    private func end(_ number: Int, after milliseconds: Int?) {
        guard let milliseconds else { return }
        self.eventLoop.assumeIsolated().scheduleTask(in: .milliseconds(Int64(milliseconds))) {
            guard self.faults.remove(number) != nil else { return }
            self.note(.faultOver(number: number), 0)
            self.feel()
        }
    }

    /// Applies the active faults to the connections and the port.
    private func feel() {
        for connection in self.connections.values {
            connection.set(self.faults.conditions(connection: connection.number))
        }
        self.listener?.setClosed(self.faults.isListenerClosed)
    }

    private func chosen(_ choice: APNSSimulatorFault.Choice) -> Int? {
        switch choice {
        case .oldest: self.connections.keys.min()
        case .newest: self.connections.keys.max()
        case .random: self.connections.keys.sorted().randomElement(using: &self.random)
        case .busiest:
            self.connections.values.max { ($0.openStreams, $1.number) < ($1.openStreams, $0.number) }?.number
        }
    }

    // MARK: scenarios

    /// Starts a scenario, which ends a running one.
    func run(_ scenario: APNSSimulatorScenario) {
        if let seed = scenario.seed { self.random = SeededGenerator(seed: seed) }
        self.script = APNSSimulatorScript(
            scenario, nowMilliseconds: Self.uptimeMilliseconds, requests: self.statistics.requests)
        self.play()
    }

    /// Ends the scenario; its faults remain until they are used up, expired or cleared.
    func clearScenario() { self.script = nil }

    /// The answer of `GET /scenario`.
    var scenarioJSON: String {
        self.script?.json(nowMilliseconds: Self.uptimeMilliseconds, requests: self.statistics.requests)
            ?? "{\"running\":false}"
    }

    /// Performs the steps that are due after this number of requests. Called after each request.
    func requestArrived() {
        if let requests = self.script?.nextRequests, self.statistics.requests >= requests { self.play() }
    }

    /// Performs the steps that are due, and schedules the next one.
    private func play() {
        guard var script = self.script else { return }
        let due = script.take(nowMilliseconds: Self.uptimeMilliseconds, requests: self.statistics.requests)
        self.script = script
        for step in due { self.add(step.fault) }
        guard let next = self.script?.nextMilliseconds else { return }
        let run = script.number
        self.eventLoop.assumeIsolated().scheduleTask(deadline: NIODeadline.uptimeNanoseconds(UInt64(next) * 1_000_000))
        {
            if self.script?.number == run { self.play() }
        }
    }

    private static var uptimeMilliseconds: Int64 { Int64(NIODeadline.now().uptimeNanoseconds / 1_000_000) }
}
