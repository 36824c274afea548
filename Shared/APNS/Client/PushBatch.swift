/// One call of `send`: collects an outcome for each notification, then resumes the caller once.
///
/// Lives on the client's event loop.
final class PushBatch {
    private var outcomes: [PushOutcome?]
    private var missing: Int
    private let continuation: CheckedContinuation<[PushOutcome], Never>

    init(count: Int, continuation: CheckedContinuation<[PushOutcome], Never>) {
        self.outcomes = Array(repeating: nil, count: count)
        self.missing = count
        self.continuation = continuation
        if count == 0 { continuation.resume(returning: []) }
    }

    /// Sets the outcome of one notification. The first counts; the client sets exactly one.
    func complete(_ index: Int, _ outcome: PushOutcome) {
        guard self.outcomes.indices.contains(index), self.outcomes[index] == nil else {
            assertionFailure("second outcome for one notification")
            return
        }
        self.outcomes[index] = outcome
        self.missing -= 1
        if self.missing == 0 { self.continuation.resume(returning: self.outcomes.compactMap(\.self)) }
    }
}
