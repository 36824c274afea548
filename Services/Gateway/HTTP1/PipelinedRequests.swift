import NIOCore

/// The connections of one event loop that already have another request when one has been answered. A few of these
/// requests are decoded at a time, in turn, and between the turns the loop serves all other connections.
///
/// Without it, a client that pipelines thousands of cheap requests would have all of them answered before any other
/// client: a loop runs all ready tasks, including those that a task adds, before it checks its sockets. Wallet does not
/// pipeline, so other clients bear the cost.
/// Bounded: each connection waits here at most once.
final class PipelinedRequests: Sendable {
    /// Requests decoded in one turn. They take about a third of `pause`, which bounds their share of the loop.
    static let requestsATurn = 8
    /// The time between two turns: 8,000 pipelined requests per second and loop.
    static let pause = TimeAmount.milliseconds(1)

    private struct State {
        /// Each decodes the next request of a connection, if that is still open.
        var waiting = CircularBuffer<() -> Void>()
        var isScheduled = false
    }

    private let eventLoop: any EventLoop
    private let state: NIOLoopBoundBox<State>

    init(_ eventLoop: any EventLoop) {
        self.eventLoop = eventLoop
        self.state = .makeBoxSendingValue(State(), eventLoop: eventLoop)
    }

    /// Calls the closure in its turn, never immediately. Must be called on the loop.
    func wait(_ decode: @escaping () -> Void) {
        self.state.value.waiting.append(decode)
        self.schedule()
    }

    private func schedule() {
        guard !self.state.value.isScheduled else { return }
        self.state.value.isScheduled = true
        self.eventLoop.assumeIsolated().scheduleTask(in: Self.pause) { self.run() }
    }

    private func run() {
        self.state.value.isScheduled = false
        for _ in 0..<Self.requestsATurn {
            guard let decode = self.state.value.waiting.popFirst() else { return }
            decode()
        }
        if !self.state.value.waiting.isEmpty { self.schedule() }
    }
}
