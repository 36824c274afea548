import APNS

/// The effect of one event on a credential's metrics. Pure: no registry, no clock.
enum CredentialUpdate: Hashable, Sendable {
    case count(CredentialSeries, by: Int)
    case set(CredentialSeries, to: Double)
    case roundTrip(Duration)

    /// The effect of an event of the client; nil for one that the credential's state shows.
    init?(_ event: APNSEvent) {
        switch event {
        case .connected: self = .count(.connected, by: 1)
        case .disconnected(let error): self = .count(.disconnected(error.code), by: 1)
        case .unreachable: return nil
        case .goAway(let reason, let code): self = .count(CredentialSeries(goAway: reason, code: code), by: 1)
        // The value is in the snapshot, for all connections together.
        case .streamLimit: self = .count(.settings, by: 1)
        case .refusedStreams(let count): self = .count(.refusedStreams, by: count)
        case .pingRoundTrip(let time): self = .roundTrip(time)
        case .replaced(let reason): self = .count(.replaced(reason), by: 1)
        }
    }

    /// Returns the effects of a client's snapshot: each gauge every time, so that none keeps an old value.
    static func all(_ snapshot: APNSSnapshot) -> [CredentialUpdate] {
        APNSSnapshot.ConnectionState.allCases.map { state in
            .set(.connections(state), to: Double(snapshot.connections[state] ?? 0))
        } + [
            .set(.streamsInUse, to: Double(snapshot.streamsInUse)),
            .set(.streamLimit, to: Double(snapshot.streamLimit)),
            .set(.queued, to: Double(snapshot.queued)),
            .set(.oldestQueuedSeconds, to: (snapshot.oldestQueued ?? .zero) / .seconds(1)),
        ]
    }
}
