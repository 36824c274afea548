/// In which order letters are put back: as they stand in their topic, but those of one order as its changes stood.
///
/// A letter may stand behind a later one of its order, when the later one's batch was sent first. They change places.
struct ReplayPlan: Sendable {
    /// Letters to be put back, in order.
    private(set) var entries: [DeadLetterIndex.Entry]
    /// Letters that were put back before.
    let replayed: Int
    /// Letters without their values.
    let omitted: Int
    /// Notifications, which are no changes.
    let pushes: Int
    /// Letters whose orders were removed since.
    private(set) var removed = 0
    /// Letters of which nobody can tell whether their orders were removed since.
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

    /// Leaves out what would bring back an order that was removed.
    mutating func leaveOut(_ removals: RemovalLedger) {
        let verdicts = self.entries.map(removals.verdict)
        self.removed = verdicts.count { $0 == .removed }
        self.unknown = verdicts.count { $0 == .unknown }
        self.entries = zip(self.entries, verdicts).filter { $0.1 == .stands }.map(\.0)
    }

    /// Letters that are not put back though they were not before.
    var left: Int { self.omitted + self.pushes + self.removed + self.unknown }

    /// The places of an order's letters stay; who stands there is sorted by origin.
    static func ordered(_ entries: [DeadLetterIndex.Entry]) -> [DeadLetterIndex.Entry] {
        let places = entries.indices.sorted { (entries[$0].order, $0) < (entries[$1].order, $1) }
        let letters = entries.indices.sorted { left, right in
            let (one, other) = (entries[left], entries[right])
            if one.order != other.order { return one.order < other.order }
            // Letters that do not tell where they stood come first, as they stand.
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

    /// Splits letters into rounds, each with at most one letter of an order, in order.
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
