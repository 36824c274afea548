import NIOCore
import Synchronization

/// The place of one connection that was let in, and since when it has no request.
///
/// The connection's handlers say what happens, from its event loop; the gate looks from another thread and may tell the
/// connection to give way. A request that begins before the connection hears of it wins.
final class ConnectionSlot: Sendable {
    /// Told to a connection that has to give way. It closes if `isGivingWay` still holds.
    struct GiveWay: Sendable {}

    /// Nil for a trusted proxy, which counts in all connections alone.
    let client: ClientAddress?
    private let channel: any Channel
    /// Nanoseconds of `NIODeadline` since when there is no request, or one of the marks.
    private let state: Atomic<UInt64>

    private static let busy = UInt64.max
    private static let givingWay = UInt64.max - 1

    init(_ channel: any Channel, client: ClientAddress?, at now: NIODeadline) {
        self.channel = channel
        self.client = client
        self.state = Atomic(now.uptimeNanoseconds)
    }

    // MARK: For the connection

    /// There is a request to be answered.
    func began() { self.state.store(Self.busy, ordering: .relaxed) }

    /// There is no request, or only the start of one.
    func ended(at now: NIODeadline) { self.state.store(now.uptimeNanoseconds, ordering: .relaxed) }

    /// True if the connection was told to give way and nothing has begun since.
    var isGivingWay: Bool { self.state.load(ordering: .relaxed) == Self.givingWay }

    // MARK: For the gate

    /// As it is judged; nil if it was told to give way already.
    var candidate: IdleConnections.Candidate? {
        switch self.state.load(ordering: .relaxed) {
        case Self.givingWay: nil
        case Self.busy: .init(client: self.client, idleSince: nil)
        case let since: .init(client: self.client, idleSince: .uptimeNanoseconds(since))
        }
    }

    /// Tells the connection to give way, unless something began since it was judged.
    ///
    /// - Returns: whether it was told.
    func giveWay(idleSince: NIODeadline) -> Bool {
        let (isTold, _) = self.state.compareExchange(
            expected: idleSince.uptimeNanoseconds, desired: Self.givingWay, ordering: .relaxed)
        if isTold { self.channel.pipeline.fireUserInboundEventTriggered(GiveWay()) }
        return isTold
    }

    /// Tells the connection that the server stops.
    func quiesce() { self.channel.pipeline.fireUserInboundEventTriggered(ChannelShouldQuiesceEvent()) }
}
