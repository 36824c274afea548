/// The sequence in which dead letters are replayed: that of their topic, but within one order that of its changes.
///
/// A dead letter may come after that of a later change of its order, if the later batch was sent first. They are
/// swapped.
struct ReplayPlan: Sendable {
    /// Dead letters to replay, in sequence.
    private(set) var entries: [DeadLetterIndex.Entry]
    /// Dead letters that were replayed before.
    let replayed: Int
    /// Dead letters without their values.
    let omitted: Int
    /// Notifications, which are not changes.
    let pushes: Int
    /// Dead letters whose orders were removed since.
    private(set) var removed = 0
    /// Dead letters for which it is unknown whether their orders were removed since.
    private(set) var unknown = 0

    init(_ ledger: DeadLetterIndex) {
        let open = ledger.entries.filter { !ledger.isReplayed($0) }
        let changes = open.filter { !$0.isPush }
        let candidates = changes.filter { !$0.isOmitted }.sorted { $0.position < $1.position }
        self.replayed = ledger.entries.count - open.count
        self.pushes = open.count - changes.count
        self.omitted = changes.count - candidates.count
        self.entries = Self.ordered(candidates)
    }

    /// Leaves out dead letters that would, or might, bring back a removed order.
    mutating func leaveOut(_ removals: RemovalLedger) {
        let verdicts = self.entries.map(removals.verdict)
        self.removed = verdicts.count { $0 == .removed }
        self.unknown = verdicts.count { $0 == .unknown }
        self.entries = zip(self.entries, verdicts).filter { $0.1 == .stands }.map(\.0)
    }

    /// The number of dead letters that were not replayed before and will not be now.
    var left: Int { self.omitted + self.pushes + self.removed + self.unknown }

    /// Keeps the places that an order's dead letters occupy, and sorts the dead letters within them by origin.
    static func ordered(_ entries: [DeadLetterIndex.Entry]) -> [DeadLetterIndex.Entry] {
        let places = entries.indices.sorted { (entries[$0].order, $0) < (entries[$1].order, $1) }
        let letters = entries.indices.sorted { left, right in
            let (one, other) = (entries[left], entries[right])
            if one.order != other.order { return one.order < other.order }
            // Dead letters without an origin come first, in their present sequence.
            switch (one.source, other.source) {
            case (let one?, let other?) where one != other: return one < other
            case (nil, .some): return true
            case (.some, nil): return false
            default: return left < right
            }
        }
        var ordered = entries
        // Both are permutations of the same indices, with the orders in the same sequence.
        for (place, letter) in zip(places, letters) { ordered[place] = entries[letter] }
        return ordered
    }

    /// Splits items into rounds, in sequence, each with at most one item of an order.
    static func rounds<Item>(_ items: [Item], order: (Item) -> UInt64) -> [[Item]] {
        var rounds: [[Item]] = []
        var next: [UInt64: Int] = [:]
        for item in items {
            let round = next[order(item), default: 0]
            next[order(item)] = round + 1
            if round == rounds.count { rounds.append([]) }
            rounds[round].append(item)
        }
        return rounds
    }
}
