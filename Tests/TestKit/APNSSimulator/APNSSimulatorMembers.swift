import Model

/// The reason why a command is rejected, a sentence for the person who sent it.
struct APNSSimulatorFaultError: Error, Hashable { let message: String }

/// The members of a received JSON object. Reading a wrong one throws an error with a sentence about it.
struct APNSSimulatorMembers {
    let object: JSONObject
    /// The path of the object: `$`, or `$.steps[3].fault`.
    let path: String

    /// Parses a request's body.
    /// - Parameter what: the name of the object, with its article: `a fault`.
    init(json bytes: [UInt8], _ what: String) throws(APNSSimulatorFaultError) {
        let json: JSON
        do { json = try JSON(parsing: bytes) } catch {
            throw APNSSimulatorFaultError(message: "reading \(what): \(error)")
        }
        try self.init(json, "$", what)
    }

    init(_ json: JSON?, _ path: String, _ what: String) throws(APNSSimulatorFaultError) {
        guard let object = json?.object else {
            let subject = path == "$" ? "\(what) is" : "\(path) must be"
            throw APNSSimulatorFaultError(message: "\(subject) a JSON object")
        }
        self.object = object
        self.path = path
    }

    /// Rejects unknown members.
    func allow(_ names: Set<String>, of what: String) throws(APNSSimulatorFaultError) {
        for member in self.object.members where !names.contains(member.name) {
            throw self.error("\(self.path).\(member.name) is not a member of \(what)")
        }
    }

    func has(_ name: String) -> Bool { self.object[name] != nil }

    func string(_ name: String) throws(APNSSimulatorFaultError) -> String? {
        try self.value(name, "a string") { $0.string }
    }

    func bool(_ name: String) throws(APNSSimulatorFaultError) -> Bool? {
        try self.value(name, "true or false") { $0.bool }
    }

    /// Requires a member to be `true`.
    func requireTrue(_ name: String) throws(APNSSimulatorFaultError) {
        guard self.object[name] == true else { throw self.error("\(self.path).\(name) must be true") }
    }

    func int(_ name: String, _ range: ClosedRange<Int64>) throws(APNSSimulatorFaultError) -> Int? {
        let to = range.upperBound >= 1_000_000_000 ? "" : " to \(range.upperBound)"
        return try self.value(name, "a whole number from \(range.lowerBound)\(to)") { json in
            json.integer.flatMap { range.contains($0) ? Int($0) : nil }
        }
    }

    func integer(_ name: String) throws(APNSSimulatorFaultError) -> Int64? {
        try self.value(name, "a whole number") { $0.integer }
    }

    func double(_ name: String, _ range: ClosedRange<Double>) throws(APNSSimulatorFaultError) -> Double? {
        try self.value(name, "a number from \(range.lowerBound) to \(range.upperBound)") { json in
            json.number.flatMap { Double($0.text) }.flatMap { range.contains($0) ? $0 : nil }
        }
    }

    /// Returns a member in seconds, up to a day, as milliseconds.
    func milliseconds(_ name: String) throws(APNSSimulatorFaultError) -> Int? {
        try self.double(name, 0...86_400).map { Int($0 * 1000) }
    }

    /// Returns a member of any form; nil if it is missing.
    func value<Value>(
        _ name: String, _ expected: String, _ read: (JSON) -> Value?
    ) throws(APNSSimulatorFaultError) -> Value? {
        guard let json = self.object[name] else { return nil }
        guard let value = read(json) else { throw self.error("\(self.path).\(name) must be \(expected)") }
        return value
    }

    /// Returns a member of the form `{"bytes": n, "everyMilliseconds": n}`.
    func pace(_ name: String) throws(APNSSimulatorFaultError) -> APNSSimulatorPace {
        let members = try Self(self.object[name], "\(self.path).\(name)", name)
        try members.allow(["bytes", "everyMilliseconds"], of: name)
        return APNSSimulatorPace(
            bytes: try members.int("bytes", 1...1_000_000) ?? 1,
            everyMilliseconds: try members.int("everyMilliseconds", 1...600_000) ?? 100)
    }

    func error(_ message: String) -> APNSSimulatorFaultError { APNSSimulatorFaultError(message: message) }
}
