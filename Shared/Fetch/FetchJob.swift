/// One request with who waits for it.
struct FetchJob: Sendable {
    let ticket: UInt64
    let request: FetchRequest
    /// Where to ask next, allowed by the request.
    var url: FetchURL
    /// How many redirects led there.
    var redirects = 0
    /// When it must be over.
    let deadline: ContinuousClock.Instant
    /// Resumed exactly once: by who takes the job out of the queue or out of the loop for good.
    let continuation: CheckedContinuation<Result<FetchResponse, FetchError>, Never>
}
