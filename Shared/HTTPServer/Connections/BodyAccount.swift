import CoreMetrics
import NIOCore
import NIOHTTP1
import Synchronization

/// The memory of the requests of all connections that have arrived in part, wait until their client has read other
/// answers, or are large and not answered yet.
///
/// Event loops share it, behind a lock. A small request that arrives at once never gets here.
final class BodyAccount: Sendable {
    /// Bytes of a body that counts until its request is answered, even if it arrived at once.
    static let large = 16 << 10

    private struct State {
        var budget: BodyBudget
        var requests: [ObjectIdentifier: CountedRequest] = [:]
    }

    private let state: Mutex<State>
    private let metrics: TransportMetrics

    init(_ limits: BodyBudget.Limits, metrics: TransportMetrics) {
        self.state = Mutex(State(budget: BodyBudget(limits)))
        self.metrics = metrics
    }

    /// Counts a request until it has `ended`.
    ///
    /// - Parameters:
    ///   - bytes: the memory that it takes now.
    ///   - isWhole: true if all of it has arrived, so that it waits for its answer only.
    fileprivate func note(_ request: CountedRequest, bytes: Int, isWhole: Bool) {
        let (identifier, now) = (ObjectIdentifier(request), NIODeadline.now())
        let leaving = self.change { state -> [(CountedRequest, BodyBudget.Scope)] in
            // One that gave way and does not know yet.
            guard !request.hasGivenWay else { return [] }
            state.requests[identifier] = request
            let leaving =
                isWhole
                ? state.budget.completed(identifier, of: request.client, bytes: bytes, at: now)
                : state.budget.arrived(identifier, of: request.client, bytes: bytes, at: now)
            return leaving.compactMap { leaving in
                guard let request = state.requests.removeValue(forKey: leaving.request) else { return nil }
                request.giveWay()
                return (request, leaving.scope)
            }
        }
        for (request, scope) in leaving {
            self.metrics.bodyGaveWay(scope)
            request.channel.pipeline.fireUserInboundEventTriggered(CountedRequest.GiveWay(request: request))
        }
    }

    fileprivate func end(_ request: CountedRequest) {
        let identifier = ObjectIdentifier(request)
        self.change { state in
            state.budget.ended(identifier)
            state.requests[identifier] = nil
        }
    }

    private func change<Result: Sendable>(_ body: (inout State) -> Result) -> Result {
        self.state.withLock { state in
            let before = state.budget.held
            defer {
                let grown = state.budget.held - before
                // Behind the lock, so that the gauge has no value that never was.
                if grown != 0 { self.metrics.bodyBytes.increment(by: Double(grown)) }
            }
            return body(&state)
        }
    }
}

/// A request that counts in the account. It is used on its connection's loop.
final class CountedRequest: Sendable {
    /// Sent to the channel of a request that gives way: it is refused if it has not arrived completely.
    struct GiveWay: Sendable { let request: CountedRequest }

    let client: ClientAddress?
    fileprivate let channel: any Channel
    private let account: BodyAccount
    private let isLeaving = Atomic(false)

    /// - Parameter client: nil for a proxy that names none.
    init(_ account: BodyAccount, of client: ClientAddress?, on channel: any Channel) {
        self.account = account
        self.client = client
        self.channel = channel
    }

    fileprivate var hasGivenWay: Bool { self.isLeaving.load(ordering: .relaxed) }
    fileprivate func giveWay() { self.isLeaving.store(true, ordering: .relaxed) }

    /// Notes the memory of the parts that have arrived, or of a request that waits.
    func arrived(bytes: Int) { self.account.note(self, bytes: bytes, isWhole: false) }

    /// Notes that all has arrived, and is being answered.
    func completed(bytes: Int) { self.account.note(self, bytes: bytes, isWhole: true) }

    /// Notes that it was answered, or never will be.
    func ended() { self.account.end(self) }
}

extension RequestFault {
    /// The refusal of a request that gave way.
    static let gaveWay = RequestFault(
        status: .serviceUnavailable,
        message: "too many requests arrive or wait at a time, and this one was among the slowest",
        retryAfterSeconds: 1)
}
