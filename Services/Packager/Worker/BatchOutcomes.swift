import Operations

/// The outcome of each piece of a batch's work: done, unless it must wait or be tried again.
struct BatchOutcomes: Sendable {
    /// In the order of the work.
    private(set) var outcomes: [KeyedWork.Outcome]

    init(count: Int) { self.outcomes = Array(repeating: .done, count: count) }

    /// Postpones a piece of work; one that must wait already keeps its first reason.
    mutating func postpone(_ place: Int, _ reason: String) {
        if self.outcomes[place] == .done { self.outcomes[place] = .later(reason: reason) }
    }

    /// Makes a piece of work wait for records that may still arrive.
    mutating func wait(_ place: Int, _ time: Duration) {
        if self.outcomes[place] == .done { self.outcomes[place] = .awaits(time) }
    }

    mutating func postpone(_ places: some Sequence<Int>, _ reason: String) {
        for place in places { self.postpone(place, reason) }
    }

    func isPostponed(_ place: Int) -> Bool { self.outcomes[place] != .done }
}
