import Operations

/// What becomes of each piece of a batch's work: done, unless a reason says why it must be tried again.
struct Verdicts: Sendable {
    private var reasons: [String?]

    init(count: Int) { self.reasons = Array(repeating: nil, count: count) }

    /// Work that must wait keeps its first reason.
    mutating func postpone(_ place: Int, _ reason: String) {
        if self.reasons[place] == nil { self.reasons[place] = reason }
    }

    mutating func postpone(_ places: some Sequence<Int>, _ reason: String) {
        for place in places { self.postpone(place, reason) }
    }

    func isPostponed(_ place: Int) -> Bool { self.reasons[place] != nil }

    /// In the order of the work.
    var outcomes: [KeyedWork.Outcome] { self.reasons.map { $0.map { .later(reason: $0) } ?? .done } }
}
