import CoreMetrics
import Glibc
import NIOCore
import NIOPosix
import Synchronization

/// Admits connections within the limits, and closes the others before anything is set up for them.
///
/// It is in the pipeline of the listening socket and decides on that socket's loop; connections end on their own loops.
final class ConnectionGate: Sendable {
    /// The time between two checks of all connections for those that must give way.
    static let interval = TimeAmount.milliseconds(250)
    /// The most times that a drain looks for a moment without a connection to be accepted.
    private static let attempts = 1000

    private struct State {
        var limits: ConnectionLimits
        var slots: [ObjectIdentifier: ConnectionSlot] = [:]
        /// The time when all connections may be checked again, and true while they are.
        var nextLook = NIODeadline.now()
        var isLooking = false
        /// Set when the server stops, and still takes connections.
        var drain: Drain?
        /// Set when no connection is admitted any more; completed when the last one has ended.
        var quiet: EventLoopPromise<Void>?
    }

    private let state: Mutex<State>
    private let draining = Draining()
    private let idle: IdleConnections
    private let proxies: TrustedProxies
    private let metrics: TransportMetrics

    init(limits: ConnectionLimits, idle: IdleConnections, proxies: TrustedProxies, metrics: TransportMetrics) {
        self.state = Mutex(State(limits: limits))
        self.idle = idle
        self.proxies = proxies
        self.metrics = metrics
    }

    /// Makes the handler for the listening socket's pipeline.
    func handler() -> some ChannelInboundHandler { Handler(gate: self) }

    /// Returns the slot of an admitted connection; nil if it must be closed, since the server is stopping.
    func slot(of channel: any Channel) -> ConnectionSlot? {
        self.state.withLock { state in state.quiet == nil ? state.slots[ObjectIdentifier(channel)] : nil }
    }

    /// Lets each connection end with its next answer, then stops.
    ///
    /// - Returns: succeeds when the last connection has ended.
    func drain(_ listener: any Channel, _ limits: Drain.Limits) -> EventLoopFuture<Void> {
        let slots = self.state.withLock { state in
            state.drain = Drain(limits, at: .now())
            return limits.most > .zero ? Array(state.slots.values) : []
        }
        self.draining.begin()
        for slot in slots { slot.drain() }
        let ended = listener.eventLoop.makePromise(of: Void.self)
        self.goOnDraining(listener, limits, ended)
        return ended.futureResult
    }

    private func goOnDraining(_ listener: any Channel, _ limits: Drain.Limits, _ ended: EventLoopPromise<Void>) {
        guard let next = self.state.withLock({ $0.drain?.next(at: .now()) }) else {
            guard limits.most > .zero else { return self.stop(listener).cascade(to: ended) }
            self.closeWhenAllAreAccepted(listener, attempts: Self.attempts)
            listener.eventLoop.scheduleTask(in: .init(limits.last)) { self.stop(listener).cascade(to: ended) }
            return
        }
        listener.eventLoop.scheduleTask(deadline: next) { self.goOnDraining(listener, limits, ended) }
    }

    /// Closes the listening socket at a moment when no connection waits to be accepted: the kernel resets those, and a
    /// proxy that has sent a POST on one must not send it again. On the socket's loop.
    private func closeWhenAllAreAccepted(_ listener: any Channel, attempts: Int) {
        let waits = try? listener.pipeline.syncOperations.withUnsafeTransportIfAvailable(
            of: NIOBSDSocket.Handle.self
        ) { socket in
            var wait = pollfd(fd: socket, events: Int16(POLLIN), revents: 0)
            return unsafe poll(&wait, 1, 0) > 0
        }
        guard waits == true, attempts > 0 else { return listener.close(promise: nil) }
        // The loop accepts them before it runs this again.
        listener.eventLoop.scheduleTask(in: .microseconds(100)) {
            self.closeWhenAllAreAccepted(listener, attempts: attempts - 1)
        }
    }

    /// Closes the listening socket, and asks all connections to end when their requests are answered.
    ///
    /// - Returns: succeeds when the last one has ended.
    func stop(_ listener: any Channel) -> EventLoopFuture<Void> {
        listener.close(promise: nil)
        let (quiet, slots) = self.state.withLock { state in
            if let quiet = state.quiet { return (quiet, [ConnectionSlot]()) }
            let quiet = listener.eventLoop.makePromise(of: Void.self)
            state.quiet = quiet
            if state.slots.isEmpty { quiet.succeed() }
            return (quiet, Array(state.slots.values))
        }
        for slot in slots { slot.quiesce() }
        return quiet.futureResult
    }

    private func admit(_ channel: any Channel) -> Bool {
        let peer = self.proxies.peer(channel.remoteAddress)
        let client = peer.isTrusted ? nil : peer.client
        let now = NIODeadline.now()
        let slot = ConnectionSlot(channel, client: client, draining: self.draining, at: now)
        let (isAdmitted, isCrowded) = self.state.withLock { state in
            guard state.quiet == nil else { return (false, false) }
            state.drain?.used(at: now)
            let refusal = state.limits.admit(client)
            if let refusal { self.metrics.refused(refusal) } else { state.slots[ObjectIdentifier(channel)] = slot }
            let isCrowded =
                !state.isLooking && now >= state.nextLook
                && state.limits.fullness(for: client) > IdleConnections.pressure
            if isCrowded { state.isLooking = true }
            return (refusal == nil, isCrowded)
        }
        if isAdmitted {
            self.metrics.connections.increment()
            channel.closeFuture.whenComplete { _ in self.leave(channel, client) }
        }
        // On a separate thread: with thousands of connections it takes as long as hundreds of requests.
        if isCrowded { NIOThreadPool.singleton.submit { _ in self.makeRoom() } }
        return isAdmitted
    }

    private func leave(_ channel: any Channel, _ client: ClientAddress?) {
        self.metrics.connections.decrement()
        let quiet = self.state.withLock { state in
            state.limits.leave(client)
            state.drain?.used(at: .now())
            state.slots[ObjectIdentifier(channel)] = nil
            return state.slots.isEmpty ? state.quiet : nil
        }
        quiet?.succeed()
    }

    /// Asks connections to end that have been idle for longer than the free slots permit.
    private func makeRoom() {
        let now = NIODeadline.now()
        // The counts are left out: while they are shared, each change would copy them.
        let (slots, limits) = self.state.withLock { state in
            (
                Array(state.slots.values),
                ConnectionLimits(total: state.limits.total, perAddress: state.limits.perAddress)
            )
        }
        let judged = slots.compactMap { slot in slot.candidate.map { (slot: slot, candidate: $0) } }
        let leaving = self.idle.givingWay(among: judged.map(\.candidate), limits: limits, at: now)
        for (position, index) in leaving.enumerated() {
            // Spread until the next check: a hundred that close together take as long as hundreds of requests.
            let delay = TimeAmount.nanoseconds(Self.interval.nanoseconds * Int64(position) / Int64(leaving.count))
            guard let since = judged[index].candidate.idleSince,
                judged[index].slot.giveWay(idleSince: since, after: delay)
            else { continue }
            self.metrics.gaveWay.increment()
        }
        self.state.withLock { state in
            state.isLooking = false
            state.nextLook = now + Self.interval
        }
    }

    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = any Channel

        private let gate: ConnectionGate

        init(gate: ConnectionGate) { self.gate = gate }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            let channel = self.unwrapInboundIn(data)
            guard self.gate.admit(channel) else { return channel.close(promise: nil) }
            context.fireChannelRead(data)
        }
    }
}

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
