import Model

extension APNSSimulatorFaults.Standing {
    /// The fault as shown by `GET /faults`: the members of `POST /faults`, but its lifetime is `forMilliseconds` and
    /// its probability a string, `now` is missing, and its number and affected connections are added.
    var json: JSON {
        var object = JSONObject([("fault", .integer(Int64(self.number)))])
        object["token"] = self.fault.token.map { .string($0) }
        object["connection"] = self.fault.connection.map { .integer(Int64($0)) }
        object["connections"] = self.connections.map { .array($0.sorted().map { .integer(Int64($0)) }) }
        object["count"] = self.remaining.map { .integer(Int64($0)) }
        object["probability"] = self.fault.probability.map { .string(String($0)) }
        object["forMilliseconds"] = self.fault.lifetimeMilliseconds.map { .integer(Int64($0)) }
        self.fault.effect.write(to: &object)
        return .object(object)
    }
}

extension APNSSimulatorFault.Effect {
    fileprivate func write(to object: inout JSONObject) {
        switch self {
        case .answer(let answer, let delay):
            answer.write(to: &object)
            object["delayMilliseconds"] = delay == 0 ? nil : .integer(Int64(delay))
        case .delay(let milliseconds): object["delayMilliseconds"] = .integer(Int64(milliseconds))
        case .randomDelay(let range):
            object["delayMilliseconds"] = [.integer(Int64(range.lowerBound)), .integer(Int64(range.upperBound))]
        case .goAway(let reason, let processed):
            object["goaway"] = ["reason": .string(reason), "processed": .bool(processed)]
        case .farewell(let goAway): object["goaway"] = goAway.json
        case .cut: object["cut"] = true
        case .reset: object["cut"] = "reset"
        case .halfClose: object["halfClose"] = true
        case .silence: object["silence"] = true
        case .resetStream(let code): object["resetStream"] = .integer(Int64(code))
        case .maxConcurrentStreams(let limit): object["maxConcurrentStreams"] = .integer(Int64(limit))
        case .condition(let condition): condition.write(to: &object)
        case .connect(.lateSettings(let milliseconds)):
            object["lateSettingsMilliseconds"] = .integer(Int64(milliseconds))
        case .connect(.slowHandshake(let milliseconds)):
            object["slowHandshakeMilliseconds"] = .integer(Int64(milliseconds))
        case .connect(.refuseHandshake(let alert)): object["refuseHandshake"] = .integer(Int64(alert))
        case .connect(.drop): object["dropConnects"] = true
        case .closeListener: object["closeListener"] = true
        case .clock(let shift): object["clockSeconds"] = .integer(shift / 1000)
        }
    }
}

extension APNSSimulatorAnswer {
    fileprivate func write(to object: inout JSONObject) {
        object["status"] = .integer(Int64(self.status))
        object["reason"] = self.reason.map { .string($0) }
        object["timestampEpochMilliseconds"] = self.timestampEpochMilliseconds.map { .integer($0) }
        object["timestampOffsetSeconds"] = self.timestampOffsetMilliseconds.map { .integer($0 / 1000) }
        object["retryAfterSeconds"] = self.retryAfterSeconds.map { .integer(Int64($0)) }
        object["identifier"] = self.hasIdentifier ? nil : false
        switch self.form {
        case .usual: break
        case .none: object["body"] = "none"
        case .broken: object["body"] = "broken"
        case .unfinished: object["body"] = "unfinished"
        case .huge(let bytes):
            object["body"] = "huge"
            object["bodyBytes"] = .integer(Int64(bytes))
        case .page(let bytes):
            object["body"] = "page"
            object["bodyBytes"] = .integer(Int64(bytes))
        }
    }
}

extension APNSSimulatorGoAway {
    fileprivate var json: JSON {
        var object = JSONObject([("errorCode", .integer(Int64(self.errorCode))), ("stays", .bool(!self.closes))])
        object["reason"] = self.reason.map { .string($0) }
        object["debug"] = self.debug.map { .string($0) }
        object["pairMilliseconds"] = self.pairPauseMilliseconds.map { .integer(Int64($0)) }
        switch self.last {
        case .processed: object["processed"] = true
        case .unprocessed: object["processed"] = false
        case .behind(let streams): object["behind"] = .integer(Int64(streams))
        }
        return .object(object)
    }
}

extension APNSSimulatorCondition {
    fileprivate func write(to object: inout JSONObject) {
        switch self {
        case .streamLimit(let limit): object["maxConcurrentStreams"] = .integer(Int64(limit))
        case .refusingStreamLimit(let limit):
            object["maxConcurrentStreams"] = .integer(Int64(limit))
            object["refuseOpen"] = true
        case .mute: object["mute"] = true
        case .blackHole: object["blackHole"] = true
        case .slowReads(let pace): object["slowReads"] = pace.json
        case .shutWindow: object["shutWindow"] = true
        case .trickle(let pace): object["trickle"] = pace.json
        }
    }
}

extension APNSSimulatorPace {
    fileprivate var json: JSON {
        ["bytes": .integer(Int64(self.bytes)), "everyMilliseconds": .integer(Int64(self.everyMilliseconds))]
    }
}
