/// The faults that stand, and the choice of the one that hits a request.
///
/// One for this token and connection comes first, then one for the token, the connection, all; among equals the oldest.
/// A fault with a count goes when it is used up, so several in a row make a script.
struct APNSSimulatorFaults {
    /// A fault with its number and how often it may still hit.
    struct Standing: Hashable {
        let number: Int
        let fault: APNSSimulatorFault
        var remaining: Int?
    }

    /// How many may stand at once.
    static let limit = 20_000

    private var byToken: [String: [Standing]] = [:]
    private var general: [Standing] = []
    private var number = 0
    private(set) var count = 0

    /// Puts a fault up.
    /// - Returns: its number, or nil when `limit` faults stand already.
    mutating func add(_ fault: APNSSimulatorFault) -> Int? {
        guard self.count < Self.limit else { return nil }
        self.number += 1
        self.count += 1
        let standing = Standing(number: self.number, fault: fault, remaining: fault.count)
        if let token = fault.token {
            self.byToken[token, default: []].append(standing)
        } else {
            self.general.append(standing)
        }
        return self.number
    }

    /// Takes all down.
    mutating func removeAll() {
        self.byToken = [:]
        self.general = []
        self.count = 0
    }

    /// Those that stand, oldest first.
    var all: [Standing] { (self.byToken.values.flatMap { $0 } + self.general).sorted { $0.number < $1.number } }

    /// The effect on one request, which uses the fault up by one.
    mutating func hit(token: some StringProtocol, connection: Int) -> APNSSimulatorFault.Effect? {
        if self.count == 0 { return nil }
        if !self.byToken.isEmpty {
            let key = token.lowercased()
            if var standing = self.byToken[key], let hit = Self.hit(in: &standing, connection: connection) {
                self.byToken[key] = standing.isEmpty ? nil : standing
                if hit.isUsedUp { self.count -= 1 }
                return hit.effect
            }
        }
        guard let hit = Self.hit(in: &self.general, connection: connection) else { return nil }
        if hit.isUsedUp { self.count -= 1 }
        return hit.effect
    }

    /// The stream limit that stands for a connection, or nil for the usual one.
    func streamLimit(connection: Int) -> Int? {
        var limit: Int?
        var isOwn = false
        for standing in self.general {
            guard case .maxConcurrentStreams(let value) = standing.fault.effect,
                standing.fault.connection == nil || standing.fault.connection == connection
            else { continue }
            let own = standing.fault.connection != nil
            if own || !isOwn { limit = value }
            isOwn = isOwn || own
        }
        return limit
    }

    private static func hit(
        in list: inout [Standing], connection: Int
    ) -> (effect: APNSSimulatorFault.Effect, isUsedUp: Bool)? {
        let hits = list.indices.filter { index in
            if case .maxConcurrentStreams = list[index].fault.effect { return false }
            return list[index].fault.connection.map { $0 == connection } ?? true
        }
        guard let index = hits.first(where: { list[$0].fault.connection != nil }) ?? hits.first else { return nil }
        let effect = list[index].fault.effect
        guard let remaining = list[index].remaining else { return (effect, false) }
        list[index].remaining = remaining - 1
        if remaining <= 1 { list.remove(at: index) }
        return (effect, remaining <= 1)
    }
}
