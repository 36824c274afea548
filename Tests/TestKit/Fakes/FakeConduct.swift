import Synchronization

/// The fault that a fake simulates, and the requests that it received.
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

    /// Applies a fault to the next `times` requests; nil ends it.
    public func fail(_ fault: Fault?, times: Int = 1) {
        self.state.withLock { state in
            state.fault = fault
            state.times = fault == nil ? 0 : times
        }
    }

    /// The last requests, in order.
    public var requests: [FakeServer.Request] { self.state.withLock(\.requests) }

    /// Records a request.
    /// - Returns: the fault that applies to it; nil for none.
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
