/// The commands of one call in progress on a cluster: the node that each of them goes to, and the answers so far.
///
/// Pure: no connection, no clock, no randomness. A command is sent again only when a node refused it (see
/// `Redirection`) or when its part was never written; so each is executed at most once. Commands of one slot stay in
/// order unless the slot is moved between two of them.
///
/// With checks, the last commands of the call, nothing is sent again: a command has an answer only if a check follows
/// it on the connection to the node that answered. A command sent elsewhere, or again, would have been executed after
/// the checks, or by a node that received none.
struct ScatteredPipeline {
    /// Most redirections of one command.
    static let redirectionLimit = 5

    /// Items for one node, in the order in which they are written.
    struct Part: Hashable {
        let node: NodeAddress
        let items: [Int]
        /// True if each of them is sent after ASKING.
        let isAsking: Bool
    }

    /// The next step for the driver.
    struct Step {
        /// Slots that are served by other nodes than the map says.
        var moves: [(slot: Int, node: NodeAddress)] = []
        var isRefreshWanted = false
        /// Send these.
        var parts: [Part] = []
        /// Call `resume` a little later.
        var mustWait = false
    }

    private struct Item {
        let command: Int
        let route: CommandRoute
        var redirections = 0
        /// For `.anyMaster` and `.everyMaster` the chosen node.
        var node: NodeAddress?
        var answer: RedisValue?

        /// True if it goes to one node and nowhere else: then a redirection is its answer.
        var isBound: Bool {
            switch self.route {
            case .slot: false
            case .node, .anyMaster, .everyMaster: true
            }
        }
    }

    let commands: [RedisCommand]
    private let merges: [CommandRoute.Merge?]
    private var items: [Item]
    private var postponed: [Int] = []
    private var missing: Int
    /// The index of the first check; nil without any.
    private let firstCheck: Int?
    /// Items without an answer, and the reason for the first of them.
    private var failed = 0
    private var failure: RedisError?

    /// - Parameter checks: the number of commands at the end that are checks.
    /// - Throws: `RedisError` with code `.unroutable` if a command cannot be sent to a cluster.
    init(_ commands: [RedisCommand], checks: Int = 0) throws(RedisError) {
        self.commands = commands
        self.firstCheck = checks > 0 ? commands.count - checks : nil
        var items: [Item] = []
        var merges: [CommandRoute.Merge?] = []
        items.reserveCapacity(commands.count)
        merges.reserveCapacity(commands.count)
        for (index, command) in commands.enumerated() {
            let route = try CommandRoute(command)
            items.append(Item(command: index, route: route))
            if case .everyMaster(let merge) = route { merges.append(merge) } else { merges.append(nil) }
        }
        self.items = items
        self.merges = merges
        self.missing = items.count
    }

    /// Returns the commands of a part as they are written.
    func commands(of part: Part) -> [RedisCommand] {
        let commands = part.items.map { self.commands[self.items[$0].command] }
        return part.isAsking ? commands.flatMap { [RedisCommand("ASKING"), $0] } : commands
    }

    /// Sends everything for the first time.
    ///
    /// - Parameter choice: any number; it chooses the master for commands that go to some master.
    mutating func begin(on map: SlotMap, choice: Int) -> Step {
        let isSpread = self.items.contains { $0.isBound }
        let masters = isSpread ? map.serving : []
        var all: [Item] = []
        all.reserveCapacity(self.items.count)
        for var item in self.items {
            switch item.route {
            case .slot, .node: all.append(item)
            case .anyMaster:
                item.node = masters.isEmpty ? nil : masters[Int(choice.magnitude % UInt(masters.count))]
                all.append(item)
            case .everyMaster:
                for master in masters {
                    item.node = master
                    all.append(item)
                }
                if masters.isEmpty { all.append(item) }
            }
        }
        self.items = all
        self.missing = all.count
        var step = Step()
        self.send(Array(all.indices), on: map, &step)
        if let firstCheck {
            for part in step.parts where !part.items.contains(where: { self.items[$0].command >= firstCheck }) {
                for index in part.items { self.refuse(index) }
                step.isRefreshWanted = true
            }
            step.parts.removeAll { !$0.items.contains { self.items[$0].command >= firstCheck } }
        }
        return step
    }

    /// Processes the answers of a part, as many as `commands(of:)` returned commands.
    mutating func received(_ answers: [RedisValue], of part: Part, on map: SlotMap) -> Step {
        var step = Step()
        var again: [Int] = []
        var asking: [(node: NodeAddress, items: [Int])] = []
        for (position, index) in part.items.enumerated() {
            let place = part.isAsking ? 2 * position + 1 : position
            guard answers.indices.contains(place) else { continue }
            let answer = answers[place]
            let redirection = self.items[index].isBound ? .answer : Redirection(answer, asked: part.node)
            switch redirection {
            case .answer: self.receive(answer, for: index)
            case .moved(let slot, let node):
                step.moves.append((slot, node))
                step.isRefreshWanted = true
                if self.firstCheck != nil {
                    self.refuse(index)
                    continue
                }
                if self.mayRedirect(index, answer) { again.append(index) }
            case .ask(let node):
                if self.firstCheck != nil {
                    self.refuse(index)
                    continue
                }
                guard self.mayRedirect(index, answer) else { continue }
                if let known = asking.firstIndex(where: { $0.node == node }) {
                    asking[known].items.append(index)
                } else {
                    asking.append((node, [index]))
                }
            case .later:
                step.isRefreshWanted = true
                if self.firstCheck != nil {
                    self.receive(answer, for: index)
                    continue
                }
                self.items[index].answer = answer
                self.postponed.append(index)
            }
        }
        var map = map
        for (slot, node) in step.moves { map.move(slot, to: node) }
        self.send(again, on: map, &step)
        for (node, items) in asking { step.parts.append(Part(node: node, items: items, isAsking: true)) }
        step.mustWait = !self.postponed.isEmpty
        return step
    }

    /// Notes that a part was lost with its connection, or not answered in time: it may have been executed.
    ///
    /// Its commands are answered with an error, the others with their answers: one master that cannot be reached does
    /// not hide the results of the others.
    mutating func failed(_ part: Part, _ error: RedisError) {
        self.failure = self.failure ?? error
        self.failed += part.items.count
        for index in part.items { self.receive(.error("\(RedisError.unansweredPrefix) \(error.message)"), for: index) }
    }

    /// The reason why the call as a whole has failed: no command of it was answered.
    var totalFailure: RedisError? { self.failed == self.items.count ? self.failure : nil }

    /// Takes back a part that was never written, because its node is no longer the right one. Call `resume`.
    mutating func withdrawn(_ part: Part) {
        for index in part.items {
            if self.firstCheck != nil {
                self.refuse(index)
                continue
            }
            switch self.items[index].route {
            case .slot: self.postponed.append(index)
            case .anyMaster:
                self.items[index].node = nil
                self.postponed.append(index)
            case .node, .everyMaster: self.receive(.error("CLUSTERDOWN \(part.node) is no longer a master"), for: index)
            }
        }
    }

    /// Sends the postponed commands again.
    mutating func resume(on map: SlotMap) -> Step {
        var step = Step()
        let postponed = self.postponed.sorted()
        self.postponed = []
        self.send(postponed, on: map, &step)
        step.mustWait = !self.postponed.isEmpty
        return step
    }

    /// Ends all retries: each postponed command gets its last answer.
    mutating func giveUp() {
        let postponed = self.postponed
        self.postponed = []
        for index in postponed {
            self.receive(self.items[index].answer ?? .error("CLUSTERDOWN no node serves the slot"), for: index)
        }
    }

    /// One answer per command, in order, once all have arrived; else nil.
    var answers: [RedisValue]? {
        guard self.missing == 0 else { return nil }
        guard self.items.count != self.commands.count || self.merges.contains(where: { $0 != nil }) else {
            return self.items.map { $0.answer ?? .null }
        }
        var all = [[RedisValue]](repeating: [], count: self.commands.count)
        for item in self.items { all[item.command].append(item.answer ?? .null) }
        return zip(all, self.merges).map { Self.merge($0, $1) }
    }

    private mutating func receive(_ answer: RedisValue, for index: Int) {
        self.items[index].answer = answer
        self.missing -= 1
    }

    private mutating func refuse(_ index: Int) {
        self.receive(.error("TRYAGAIN its slot is migrating, and no check follows it"), for: index)
    }

    /// Counts a redirection. One beyond the limit is answered with a retriable error that says so.
    private mutating func mayRedirect(_ index: Int, _ answer: RedisValue) -> Bool {
        self.items[index].redirections += 1
        guard self.items[index].redirections > Self.redirectionLimit else { return true }
        self.receive(.error("TRYAGAIN redirected \(Self.redirectionLimit) times already"), for: index)
        return false
    }

    private mutating func send(_ indices: [Int], on map: SlotMap, _ step: inout Step) {
        var parts: [(node: NodeAddress, items: [Int])] = []
        for index in indices {
            let node: NodeAddress?
            switch self.items[index].route {
            case .slot(let slot): node = map.master(of: slot)
            case .node(let address): node = address
            case .anyMaster, .everyMaster: node = self.items[index].node ?? map.serving.first
            }
            guard let node else {
                if self.firstCheck != nil {
                    self.refuse(index)
                    continue
                }
                self.postponed.append(index)
                step.isRefreshWanted = true
                step.mustWait = true
                continue
            }
            if let known = parts.firstIndex(where: { $0.node == node }) {
                parts[known].items.append(index)
            } else {
                parts.append((node, [index]))
            }
        }
        for (node, items) in parts { step.parts.append(Part(node: node, items: items, isAsking: false)) }
    }

    private static func merge(_ answers: [RedisValue], _ merge: CommandRoute.Merge?) -> RedisValue {
        let errors = answers.filter { $0.serverError != nil }
        let first = answers.first ?? .null
        switch merge {
        case nil: return first
        case .anyMaySucceed: return answers.first { $0.serverError == nil } ?? first
        case .allMustSucceed: return errors.first ?? first
        case .lowestTime:
            return errors.first ?? answers.min { Self.time($0).lexicographicallyPrecedes(Self.time($1)) } ?? .null
        case .sum: return errors.first ?? .integer(answers.reduce(0) { $0 &+ ($1.integer ?? 0) })
        }
    }

    /// Seconds and microseconds. Source: Redis TIME
    private static func time(_ reply: RedisValue) -> [Int64] { (reply.array ?? []).map { $0.integer ?? 0 } }
}
