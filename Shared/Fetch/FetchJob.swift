/// One request with the continuation of its caller.
struct FetchJob: Sendable {
    let ticket: UInt64
    let request: FetchRequest
    /// The URL to request next, allowed by the request.
    var url: FetchURL
    /// The number of redirects that led there.
    var redirects = 0
    /// The time by which it must be finished.
    let deadline: ContinuousClock.Instant
    /// Resumed exactly once: by the code that removes the job from the queue or from the loop for good.
    let continuation: CheckedContinuation<Result<FetchResponse, FetchError>, Never>
}
