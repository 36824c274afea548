import Synchronization

/// The faults that a fake is told, and what came to it.
///
/// Bounded: the last 1,000 requests.
public final class FakeConduct<Fault: Sendable>: Sendable {
    private struct State {
        var fault: Fault?
        var times = 0
        var requests: [FakeServer.Request] = []
    }

    private let state = Mutex(State())

    public init() {}

    /// Fails so for the next `times` requests; nil ends it.
    public func fail(_ fault: Fault?, times: Int = 1) {
        self.state.withLock { state in
            state.fault = fault
            state.times = fault == nil ? 0 : times
        }
    }

    /// The requests so far, in order.
    public var requests: [FakeServer.Request] { self.state.withLock(\.requests) }

    /// Notes a request.
    /// - Returns: the fault that it is to meet.
    func take(_ request: FakeServer.Request) -> Fault? {
        self.state.withLock { state in
            if state.requests.count >= 1000 { state.requests.removeFirst() }
            state.requests.append(request)
            guard state.times > 0 else { return nil }
            state.times -= 1
            return state.fault
        }
    }
}
