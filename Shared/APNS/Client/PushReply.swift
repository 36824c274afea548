/// The outcome of one request; each request gets exactly one.
public struct PushReply: Hashable, Sendable {
    /// The request's number.
    public let number: UInt64
    public let outcome: PushOutcome
    /// The time from the request's first start to its outcome, refusals included; nil if it was never sent.
    public let elapsed: Duration?

    public init(number: UInt64, outcome: PushOutcome, elapsed: Duration?) {
        self.number = number
        self.outcome = outcome
        self.elapsed = elapsed
    }
}
