import NIOCore
import NIOHTTP2

extension APNSSimulatorConnection {
    /// The PING sent after a GOAWAY: a client that answers it has read the GOAWAY.
    static let goAwayPing = HTTP2PingData(withInteger: 0x676F_2061_7761_7921)
    /// The time that a client has to close the connection after GOAWAY, so that it can read data in flight.
    static let lingering = TimeAmount.seconds(1)

    /// Applies the conditions that hold when the connection begins, and the faults of its first SETTINGS. Called before
    /// the handlers write anything.
    func begin() {
        let conditions = self.conditions
        self.conditions = APNSSimulatorConditions()
        self.conditions.streamLimit = conditions.streamLimit
        self.conditions.isWindowShut = conditions.isWindowShut
        if case .lateSettings(let milliseconds) = self.state.hitConnect(isAccepted: true) {
            self.setHeld(true)
            self.state.eventLoop.assumeIsolated().scheduleTask(in: .milliseconds(Int64(milliseconds))) {
                self.setHeld(false)
            }
        }
        self.set(conditions)
    }

    /// Answers a request that breaks no rule, unless a fault applies.
    func deliver(
        _ request: APNSSimulatorRequest, _ identifier: APNSSimulatorIdentifier, _ fault: APNSSimulatorFault?,
        on stream: Int, now: Int64
    ) {
        let usual = self.state.configuration.delayMilliseconds
        let settle = { (answer: APNSSimulatorAnswer?, delay: Int) in
            self.settle(request, identifier, answer, on: stream, now: now, after: delay)
        }
        switch fault?.effect {
        case .delay(let milliseconds): settle(.accepted, milliseconds)
        case .randomDelay(let range): settle(.accepted, Int.random(in: range, using: &self.state.random))
        case .answer(let answer, let delay): settle(answer, delay > 0 ? delay : usual)
        case .silence: settle(nil, 0)
        case .resetStream(let code):
            settle(nil, 0)
            self.streams[stream] = nil
            self.write(.rstStream(HTTP2ErrorCode(networkCode: code)), on: stream)
        case .cut, .reset, .halfClose:
            settle(nil, 0)
            if let effect = fault?.effect { self.act(effect) }
        case .goAway, .farewell:
            guard let goAway = fault?.effect.goAwayFrame else { return }
            // A stream below a processed one cannot be left out: GOAWAY names only the last one.
            if goAway.last != .unprocessed || stream < self.highestDecided { settle(.accepted, 0) }
            self.goAway(goAway, processed: self.highestDecided)
        case .condition(let condition):
            self.state.befall(self, condition, lifetimeMilliseconds: fault?.lifetimeMilliseconds)
            settle(.accepted, usual)
        case nil, .maxConcurrentStreams, .connect, .closeListener, .clock: settle(.accepted, usual)
        }
    }

    /// Performs an immediate fault.
    func act(_ effect: APNSSimulatorFault.Effect) {
        switch effect {
        case .cut: self.wire.cut()
        case .reset: self.wire.reset()
        case .halfClose:
            self.setHeld(true)
            self.wire.halfClose()
        case .goAway, .farewell:
            guard let goAway = effect.goAwayFrame else { return }
            self.goAway(goAway, processed: goAway.last == .processed ? self.highest : self.highestDecided)
        default: break
        }
    }

    // MARK: conditions

    /// Replaces the conditions of the connection.
    func set(_ conditions: APNSSimulatorConditions) {
        guard conditions != self.conditions else { return }
        let former = self.conditions
        self.conditions = conditions
        if conditions.isBlackHole || conditions.isMute || conditions.isWindowShut { self.hasGivenCause = true }
        self.gate.setTrickle(conditions.trickle)
        self.gate.setHeld(self.isHeld || conditions.isBlackHole)
        if former.isWindowShut != conditions.isWindowShut { self.setWindow(isShut: conditions.isWindowShut) }
        if former.streamLimit != conditions.streamLimit { self.announceStreamLimit() }
        if conditions.refusesOpenStreams { self.refuseStreamsAboveLimit() }
        self.wire.setPace(conditions.slowReads)
        self.wire.setStopped(conditions.isBlackHole)
    }

    /// Sends the client the current stream limit, if it has changed.
    func announceStreamLimit() {
        let isProven = self.hasCertificate || self.tokens.isProven
        let limit = isProven ? self.conditions.streamLimit ?? self.state.configuration.maxConcurrentStreams : 1
        guard limit != self.streamLimit else { return }
        self.streamLimit = limit
        self.sendSettings([(3, UInt32(clamping: limit))])
    }

    private func refuseStreamsAboveLimit() {
        for stream in self.streams.keys.sorted().dropFirst(max(0, self.streamLimit)) {
            self.streams[stream] = nil
            self.write(.rstStream(.refusedStream), on: stream)
        }
        self.context?.flush()
    }

    private func setWindow(isShut: Bool) {
        self.sendSettings([(4, isShut ? 0 : 65_535)])
        guard !isShut else { return }
        self.openWindow()
        self.context?.flush()
    }

    private func sendSettings(_ settings: [(identifier: UInt16, value: UInt32)]) {
        self.conduct.announced(limit: self.streamLimit)
        self.state.note(.settings(streamLimit: self.streamLimit), self.number)
        self.context?.flush()
        self.gate.send(APNSSimulatorGate.settings(settings))
    }

    private func setHeld(_ isHeld: Bool) {
        self.isHeld = isHeld
        self.gate.setHeld(isHeld || self.conditions.isBlackHole)
    }

    // MARK: GOAWAY

    /// Sends a GOAWAY, or the first of a pair.
    /// - Parameter processed: the last processed stream, which a correct frame names.
    func goAway(_ goAway: APNSSimulatorGoAway, processed: Int) {
        guard !self.hasSentGoAway else { return }
        self.hasSentGoAway = true
        self.closesAfterGoAway = goAway.closes
        guard let pause = goAway.pairPauseMilliseconds else { return self.goAwayLast(goAway, processed: processed) }
        self.sendGoAway(last: 0x7FFF_FFFF, goAway)
        self.state.eventLoop.assumeIsolated().scheduleTask(in: .milliseconds(Int64(pause))) {
            self.goAwayLast(goAway, processed: self.highestDecided)
        }
    }

    private func goAwayLast(_ goAway: APNSSimulatorGoAway, processed: Int) {
        var last = processed
        if case .behind(let streams) = goAway.last { last = max(0, processed - 2 * min(streams, processed)) }
        self.lastStream = last
        self.streams = self.streams.filter { $0.key <= last }
        self.sendGoAway(last: last, goAway)
        self.closeWhenDone()
    }

    private func sendGoAway(last: Int, _ goAway: APNSSimulatorGoAway) {
        self.state.note(.goAwaySent(last: last, errorCode: goAway.errorCode, debug: goAway.debugData), self.number)
        self.context?.flush()
        let frame = APNSSimulatorGate.goAway(
            last: UInt32(clamping: last), errorCode: UInt32(clamping: goAway.errorCode),
            debug: Array(goAway.debugData.utf8))
        self.gate.send(frame)
        self.write(.ping(Self.goAwayPing, ack: false), on: 0)
        self.context?.flush()
    }

    /// Closes the connection after `lingering` if GOAWAY was sent and no request is left to answer.
    func closeWhenDone() {
        guard self.lastStream != nil, self.closesAfterGoAway, self.streams.isEmpty else { return }
        self.state.eventLoop.assumeIsolated().scheduleTask(in: Self.lingering) { self.context?.close(promise: nil) }
    }
}

extension APNSSimulatorFault.Effect {
    /// The GOAWAY of either form; nil for other effects.
    var goAwayFrame: APNSSimulatorGoAway? {
        switch self {
        case .goAway(let reason, let processed):
            APNSSimulatorGoAway(reason: reason, last: processed ? .processed : .unprocessed)
        case .farewell(let goAway): goAway
        default: nil
        }
    }
}

extension APNSSimulatorAnswer {
    /// The violation of a request that gets this refusal; nil for a token that has expired.
    var violation: APNSSimulatorViolation? {
        switch self.reason {
        case "ExpiredProviderToken": nil
        case "TooManyProviderTokenUpdates": .providerTokenChangedTooOften
        case "UnrelatedKeyIdInToken": .providerTokenOfAnotherKey
        default: .badRequest
        }
    }
}
