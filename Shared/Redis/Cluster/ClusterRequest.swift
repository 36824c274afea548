import NIOCore

/// One call in progress on a cluster, and the completion that waits for it. Belongs to one event loop.
final class ClusterRequest {
    var pipeline: ScatteredPipeline
    /// The time until which commands are sent again.
    let deadline: NIODeadline
    /// The number of times it was postponed.
    var attempts = 0
    private(set) var hasBegun = false
    private(set) var isDone = false
    private let request: RedisLink.Request

    init(_ pipeline: ScatteredPipeline, _ request: RedisLink.Request, deadline: NIODeadline) {
        self.pipeline = pipeline
        self.request = request
        self.deadline = deadline
    }

    /// Sends everything for the first time.
    func begin(on map: SlotMap) -> ScatteredPipeline.Step {
        self.hasBegun = true
        return self.pipeline.begin(on: map, choice: Int.random(in: 0...Int.max))
    }

    /// Completes the call. Only the first completion counts: parts that arrive later belong to a call that failed.
    func succeed(_ answers: [RedisValue]) {
        guard !self.isDone else { return }
        self.isDone = true
        self.request.succeed(answers)
    }

    /// Fails the call, under the same rule as `succeed`.
    func fail(_ error: RedisError) {
        guard !self.isDone else { return }
        self.isDone = true
        self.request.fail(error)
    }
}
