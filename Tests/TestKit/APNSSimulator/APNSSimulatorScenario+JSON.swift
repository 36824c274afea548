import Model

extension APNSSimulatorScenario {
    /// The most steps of a scenario.
    static let stepLimit = 10_000

    /// Parses the body of `POST /scenario`.
    ///
    /// `{"seed": 7, "steps": [{"at": 1.5, "for": 2, "fault": {…}}, {"afterRequests": 1000, "fault": {…}}]}`: `at`
    /// and `for` in seconds; a fault as in `POST /faults`.
    /// - Parameter nowEpochMilliseconds: the timestamp of a 410 without one.
    public init(json bytes: [UInt8], nowEpochMilliseconds: Int64) throws(APNSSimulatorError) {
        do {
            try self.init(reading: bytes, nowEpochMilliseconds: nowEpochMilliseconds)
        } catch {
            throw APNSSimulatorError(description: error.message)
        }
    }

    init(reading bytes: [UInt8], nowEpochMilliseconds: Int64) throws(APNSSimulatorFaultError) {
        let members = try APNSSimulatorMembers(json: bytes, "a scenario")
        try members.allow(["seed", "steps"], of: "a scenario")
        let seed = try members.int("seed", 0...Int64.max)
        guard let list = members.object["steps"]?.array, list.count <= Self.stepLimit else {
            throw members.error("$.steps must be an array of at most \(Self.stepLimit) steps")
        }
        var steps: [Step] = []
        for (index, json) in list.enumerated() {
            steps.append(try Self.step(json, index, nowEpochMilliseconds))
        }
        self.init(seed: seed.map { UInt64($0) }, steps: steps)
    }

    private static func step(
        _ json: JSON, _ index: Int, _ nowEpochMilliseconds: Int64
    ) throws(APNSSimulatorFaultError) -> Step {
        let members = try APNSSimulatorMembers(json, "$.steps[\(index)]", "a step")
        try members.allow(["at", "afterRequests", "for", "fault"], of: "a step")
        let at = try members.milliseconds("at")
        let requests = try members.int("afterRequests", 0...1_000_000_000)
        guard (at == nil) != (requests == nil) else {
            throw members.error("\(members.path) needs either at or afterRequests")
        }
        let inner = try APNSSimulatorMembers(members.object["fault"], "\(members.path).fault", "a fault")
        var fault: APNSSimulatorFault
        do {
            fault = try APNSSimulatorFault(inner, nowEpochMilliseconds: nowEpochMilliseconds)
        } catch {
            // Messages about a fault may begin with `$` for the fault.
            throw members.error(error.message.hasPrefix("$.steps") ? error.message : "\(inner.path): \(error.message)")
        }
        if let lifetime = try members.milliseconds("for") { fault.lifetimeMilliseconds = lifetime }
        return Step(at.map { .at(milliseconds: $0) } ?? .afterRequests(requests ?? 0), fault)
    }
}
