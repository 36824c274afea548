extension Array {
    /// Splits elements into rounds, in sequence, each with at most one element of a key.
    ///
    /// Of messages that are published round by round, one that fails and is published again comes before the later ones
    /// of its key.
    func rounds<Key: Hashable>(by key: (Element) -> Key) -> [[Element]] {
        var rounds: [[Element]] = []
        var next: [Key: Int] = [:]
        for element in self {
            let round = next[key(element), default: 0]
            next[key(element)] = round + 1
            if round == rounds.count { rounds.append([]) }
            rounds[round].append(element)
        }
        return rounds
    }
}
