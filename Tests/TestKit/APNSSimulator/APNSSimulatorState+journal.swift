extension APNSSimulatorState {
    /// Records a request and wakes the requests that wait for deliveries.
    func record(
        _ request: APNSSimulatorRequest, _ identifier: APNSSimulatorIdentifier, _ answer: APNSSimulatorAnswer?,
        _ connection: APNSSimulatorConnection, stream: Int, now: Int64, delay: Int
    ) {
        let topic = self.interned(request.topic ?? connection.certificateTopic ?? "")
        self.deliveryRing.append { sequence in
            APNSSimulatorDelivery(
                sequence: sequence, token: String(request.deviceToken ?? ""), topic: topic, apnsID: identifier,
                pushType: request.pushType, priority: request.priority.map { Int($0) ?? 0 } ?? 10,
                expirationEpochSeconds: request.expiration.flatMap { APNSSimulatorRules.seconds($0) },
                collapseIdentifier: request.collapseIdentifier,
                status: answer?.status ?? 0, reason: answer?.reason, receivedEpochMilliseconds: now,
                connection: connection.number)
        }
        let delivery = self.deliveryRing.last
        self.append(
            .request(
                APNSSimulatorVerdict(
                    stream: stream, delivery: delivery, status: answer?.status ?? 0, reason: answer?.reason,
                    delayMilliseconds: delay, indexed: request.indexed)), connection.number, now)
        self.statistics.answered(answer, atMilliseconds: now)
        self.wake()
    }

    /// Records an event of a connection.
    func note(_ kind: APNSSimulatorEvent.Kind, _ connection: Int) {
        self.statistics.count(kind)
        self.append(kind, connection, self.nowEpochMilliseconds)
    }

    /// Records a client's violation.
    func note(_ violation: APNSSimulatorViolation, _ connection: Int, stream: Int? = nil) {
        self.note(.violation(violation, stream: stream), connection)
    }

    private func append(_ kind: APNSSimulatorEvent.Kind, _ connection: Int, _ now: Int64) {
        self.eventRing.append { sequence in
            APNSSimulatorEvent(sequence: sequence, epochMilliseconds: now, connection: connection, kind: kind)
        }
    }

    func deliveries(after sequence: UInt64, limit: Int) -> APNSSimulatorDeliveries {
        let page = self.deliveryRing.elements(after: sequence, limit: limit)
        return APNSSimulatorDeliveries(
            deliveries: page.elements, last: page.last, dropped: self.deliveryRing.dropped)
    }

    func events(after sequence: UInt64, limit: Int) -> APNSSimulatorEvents {
        let page = self.eventRing.elements(after: sequence, limit: limit)
        return APNSSimulatorEvents(events: page.elements, last: page.last, dropped: self.eventRing.dropped)
    }

    /// The answer of `GET /unheard`.
    var unheardJSON: String {
        let deliveries = self.unheardRing.elements(after: 0).elements.map { String($0) }.joined(separator: ",")
        return "{\"deliveries\":[\(deliveries)],\"dropped\":\(self.unheardRing.dropped)}"
    }

    func clearDeliveries() { self.deliveryRing.removeAll() }

    func clearEvents() { self.eventRing.removeAll() }

    /// The counters, including those of the open connections.
    var currentStatistics: APNSSimulatorStatistics {
        var statistics = self.statistics
        for connection in self.connections.values {
            statistics.mostStreams = max(statistics.mostStreams, connection.mostStreams)
            statistics.openStreams += connection.openStreams
        }
        statistics.openConnections = self.connections.count
        return statistics
    }
}
