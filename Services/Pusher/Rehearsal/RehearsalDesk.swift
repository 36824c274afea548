import APNS
import Model
import Synchronization

/// Hands made-up notifications to a client and takes its replies, so that a number of them is always outstanding.
///
/// Bounded: `ahead` notifications. Thread: `begin` any, `take` the client's event loop.
final class RehearsalDesk: Sendable {
    private struct State {
        var made = 0
        var outstanding = 0
        var verdicts: [String: Int] = [:]
        var client: APNSClient?
        var finished: CheckedContinuation<[String: Int], Never>?
    }

    private let state = Mutex(State())
    private let targets: [PushToken]
    private let orderType: OrderTypeIdentifier
    private let expirationEpochSeconds: Int64
    private let notifications: Int
    private let ahead: Int

    init(
        targets: [PushToken], orderType: OrderTypeIdentifier, expirationEpochSeconds: Int64, notifications: Int,
        ahead: Int
    ) {
        self.targets = targets
        self.orderType = orderType
        self.expirationEpochSeconds = expirationEpochSeconds
        self.notifications = notifications
        self.ahead = ahead
    }

    /// Hands over the first notifications; returns when the last reply came, with how many had which verdict.
    func run(_ client: APNSClient) async -> [String: Int] {
        await withCheckedContinuation { continuation in
            let requests = self.state.withLock { state in
                state.client = client
                state.finished = continuation
                return self.next(&state)
            }
            client.submit(requests)
        }
    }

    /// Takes replies; as many notifications follow.
    func take(_ replies: [PushReply]) {
        let (client, requests, finished) = self.state.withLock { state in
            for reply in replies { state.verdicts[name(of: verdict(of: reply.outcome)), default: 0] += 1 }
            state.outstanding -= replies.count
            let requests = self.next(&state)
            guard state.outstanding == 0 else { return (state.client, requests, nil as (() -> Void)?) }
            let (continuation, verdicts) = (state.finished, state.verdicts)
            state.finished = nil
            // The client keeps this desk.
            state.client = nil
            return (nil, [], { continuation?.resume(returning: verdicts) })
        }
        client?.submit(requests)
        finished?()
    }

    private func next(_ state: inout State) -> [PushRequest] {
        let count = min(self.ahead - state.outstanding, self.notifications - state.made)
        guard count > 0 else { return [] }
        let requests = (state.made..<state.made + count).map { number in
            PushRequest(
                number: UInt64(number),
                notification: PushNotification(
                    deviceToken: self.targets[number % self.targets.count], topic: self.orderType,
                    expirationEpochSeconds: self.expirationEpochSeconds))
        }
        state.made += count
        state.outstanding += count
        return requests
    }
}

private func name(of verdict: PushVerdict) -> String {
    switch verdict {
    case .delivered: "delivered"
    case .retire: "retire"
    case .unknownToken: "unknown"
    case .retry: "retry"
    case .stopCredential: "stop"
    case .drop: "drop"
    }
}
