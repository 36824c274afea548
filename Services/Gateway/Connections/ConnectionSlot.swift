import NIOCore
import Synchronization

/// The slot of one admitted connection, and the time since which it has no request.
///
/// The connection's handlers report events, from its event loop; the gate checks from another thread and may ask the
/// connection to give way. A request that begins before the connection is notified wins.
final class ConnectionSlot: Sendable {
    /// Sent to a connection that must give way. It closes if `isGivingWay` still holds.
    struct GiveWay: Sendable {}

    /// Sent to a connection when the server begins to drain: it takes no new requests once its client knows.
    struct Drain: Sendable {}

    /// Nil for a trusted proxy, which counts only in the total.
    let client: ClientAddress?
    private let channel: any Channel
    private let draining: Draining
    /// Nanoseconds of `NIODeadline` since which there is no request, or one of the marks.
    private let state: Atomic<UInt64>

    private static let busy = UInt64.max
    private static let givingWay = UInt64.max - 1

    init(_ channel: any Channel, client: ClientAddress?, draining: Draining, at now: NIODeadline) {
        self.channel = channel
        self.draining = draining
        self.client = client
        self.state = Atomic(now.uptimeNanoseconds)
    }

    // MARK: For the connection

    /// Notes that there is a request to be answered.
    func began() { self.state.store(Self.busy, ordering: .relaxed) }

    /// Notes that there is no request, or only the beginning of one.
    func ended(at now: NIODeadline) { self.state.store(now.uptimeNanoseconds, ordering: .relaxed) }

    /// True if the connection was asked to give way and no request has begun since.
    var isGivingWay: Bool { self.state.load(ordering: .relaxed) == Self.givingWay }

    /// True if the server drains: an answer is the connection's last.
    var isDraining: Bool { self.draining.isDraining }

    // MARK: For the gate

    /// The facts for the decision; nil if it was asked to give way already.
    var candidate: IdleConnections.Candidate? {
        switch self.state.load(ordering: .relaxed) {
        case Self.givingWay: nil
        case Self.busy: .init(client: self.client, idleSince: nil)
        case let since: .init(client: self.client, idleSince: .uptimeNanoseconds(since))
        }
    }

    /// Asks the connection to give way in a moment, unless a request has begun since the decision.
    ///
    /// - Returns: true if it is asked.
    func giveWay(idleSince: NIODeadline, after delay: TimeAmount) -> Bool {
        let (isAsked, _) = self.state.compareExchange(
            expected: idleSince.uptimeNanoseconds, desired: Self.givingWay, ordering: .relaxed)
        if isAsked {
            self.channel.eventLoop.scheduleTask(in: delay) { [channel] in
                channel.pipeline.fireUserInboundEventTriggered(GiveWay())
            }
        }
        return isAsked
    }

    /// Notifies the connection that the server drains.
    func drain() { self.channel.pipeline.fireUserInboundEventTriggered(Drain()) }

    /// Notifies the connection that the server stops.
    func quiesce() { self.channel.pipeline.fireUserInboundEventTriggered(ChannelShouldQuiesceEvent()) }
}
