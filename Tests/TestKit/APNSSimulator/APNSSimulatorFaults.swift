/// The active faults, and the choice of the fault that applies to a request or a new connection.
///
/// A fault for this token and connection takes precedence, then one for the token, the connection, all; among equals
/// the oldest. A fault with a count is removed when it is used up, so several in a row make a script.
struct APNSSimulatorFaults {
    /// A fault with its number and its remaining count.
    struct Standing: Hashable {
        let number: Int
        let fault: APNSSimulatorFault
        var remaining: Int?
        /// The only connections that it may affect; nil means those that the fault names.
        var connections: Set<Int>?

        /// Returns true if the fault applies to a connection.
        fileprivate func matches(_ connection: Int) -> Bool {
            if let connections { return connections.contains(connection) }
            return self.fault.connection.map { $0 == connection } ?? true
        }

        fileprivate var isParticular: Bool { self.connections != nil || self.fault.connection != nil }
    }

    /// The most active faults.
    static let limit = 20_000

    /// Faults that wait for a request of one token.
    private var byToken: [String: [Standing]] = [:]
    /// Faults that wait for any request.
    private var general: [Standing] = []
    /// Faults that wait for a new connection.
    private var connects: [Standing] = []
    /// Lasting faults: conditions and the closed listener.
    private var lasting: [Standing] = []
    private var number = 0
    private(set) var count = 0

    /// Adds a fault.
    /// - Parameter connections: the only connections that it may affect.
    /// - Returns: its number, or nil if there are `limit` faults already.
    mutating func add(_ fault: APNSSimulatorFault, connections: Set<Int>? = nil) -> Int? {
        guard self.count < Self.limit else { return nil }
        self.number += 1
        self.count += 1
        let standing = Standing(
            number: self.number, fault: fault, remaining: fault.count, connections: connections)
        switch fault.stage {
        case .request, .now:
            if let token = fault.token {
                self.byToken[token, default: []].append(standing)
            } else {
                self.general.append(standing)
            }
        case .connect: self.connects.append(standing)
        case .connections, .listener: self.lasting.append(standing)
        }
        return self.number
    }

    /// Removes a fault whose lifetime has ended.
    /// - Returns: the fault; nil if it was already removed.
    mutating func remove(_ number: Int) -> APNSSimulatorFault? {
        let removed = self.take(number)
        if removed != nil { self.count -= 1 }
        return removed
    }

    /// Removes all faults.
    mutating func removeAll() {
        self.byToken = [:]
        self.general = []
        self.connects = []
        self.lasting = []
        self.count = 0
    }

    /// All active faults, oldest first.
    var all: [Standing] {
        (self.byToken.values.flatMap { $0 } + self.general + self.connects + self.lasting)
            .sorted { $0.number < $1.number }
    }

    /// True if a fault keeps the port closed.
    var isListenerClosed: Bool { self.lasting.contains { $0.fault.effect == .closeListener } }

    /// Returns the fault for a request and decreases its count; nil if none applies.
    mutating func hit(
        token: some StringProtocol, connection: Int, using random: inout SeededGenerator
    ) -> APNSSimulatorFault? {
        if self.count == 0 { return nil }
        if !self.byToken.isEmpty {
            let key = token.lowercased()
            if var standing = self.byToken[key] {
                let hit = Self.hit(in: &standing, connection: connection, &self.count, &random)
                if let hit {
                    self.byToken[key] = standing.isEmpty ? nil : standing
                    return hit
                }
            }
        }
        return Self.hit(in: &self.general, connection: connection, &self.count, &random)
    }

    /// Returns the fault for a new connection and decreases its count; nil if none applies.
    mutating func hitConnect(
        isAccepted: Bool, using random: inout SeededGenerator
    ) -> APNSSimulatorConnectFault? {
        guard !self.connects.isEmpty else { return nil }
        // Faults of the first bytes and faults of the first SETTINGS are looked up at different times.
        let fault = Self.hit(in: &self.connects, connection: 0, &self.count, &random) { fault in
            if case .connect(.lateSettings) = fault.effect { isAccepted } else { !isAccepted }
        }
        if case .connect(let connect) = fault?.effect { return connect }
        return nil
    }

    /// Returns all current conditions of a connection.
    func conditions(connection: Int) -> APNSSimulatorConditions {
        var conditions = APNSSimulatorConditions()
        guard !self.lasting.isEmpty else { return conditions }
        for isParticular in [false, true] {
            for standing in self.lasting
            where standing.isParticular == isParticular && standing.matches(connection) {
                if let condition = standing.fault.condition { conditions.add(condition) }
            }
        }
        return conditions
    }

    private mutating func take(_ number: Int) -> APNSSimulatorFault? {
        if let index = self.lasting.firstIndex(where: { $0.number == number }) {
            return self.lasting.remove(at: index).fault
        }
        if let index = self.general.firstIndex(where: { $0.number == number }) {
            return self.general.remove(at: index).fault
        }
        if let index = self.connects.firstIndex(where: { $0.number == number }) {
            return self.connects.remove(at: index).fault
        }
        for (token, list) in self.byToken {
            guard let index = list.firstIndex(where: { $0.number == number }) else { continue }
            let fault = list[index].fault
            self.byToken[token]?.remove(at: index)
            if list.count == 1 { self.byToken[token] = nil }
            return fault
        }
        return nil
    }

    private static func hit(
        in list: inout [Standing], connection: Int, _ count: inout Int, _ random: inout SeededGenerator,
        where isMeant: (APNSSimulatorFault) -> Bool = { _ in true }
    ) -> APNSSimulatorFault? {
        for isParticular in [true, false] {
            for index in list.indices
            where list[index].isParticular == isParticular && list[index].matches(connection)
                && isMeant(list[index].fault)
            {
                let fault = list[index].fault
                if let probability = fault.probability, Double.random(in: 0..<1, using: &random) >= probability {
                    continue
                }
                guard let remaining = list[index].remaining else { return fault }
                list[index].remaining = remaining - 1
                if remaining <= 1 {
                    list.remove(at: index)
                    count -= 1
                }
                return fault
            }
        }
        return nil
    }
}
