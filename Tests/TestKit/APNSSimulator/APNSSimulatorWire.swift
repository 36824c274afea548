import NIOCore

#if canImport(Glibc)
    import Glibc
#endif

/// The handler next to the socket, below TLS, that simulates failures of the network: abrupt ends, silence, slowness,
/// refusals.
///
/// Thread: the connection's event loop. Data that a client sends while nothing is read stays in the system's buffers,
/// which are bounded.
final class APNSSimulatorWire: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private var context: ChannelHandlerContext?
    /// The number of the fatal alert that answers the first bytes; nil for none.
    private let alert: UInt8?
    /// True while nothing is read.
    private var isStopped = false
    /// True if a handler above requested a read while reading was stopped or paused.
    private var wantsRead = false
    private var pace: APNSSimulatorPace?
    private var pause: Scheduled<Void>?
    /// True if this handler ended the connection.
    private(set) var hasEnded = false

    /// - Parameter alert: the number of the alert that refuses the handshake.
    init(alert: UInt8? = nil) { self.alert = alert }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.pause?.cancel()
        self.context = nil
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard let alert else { return context.fireChannelRead(data) }
        guard !self.hasEnded else { return }
        self.hasEnded = true
        // A TLS record: alert (21), version 3.3, two bytes: fatal (2) and the alert. Source: RFC 8446 §5.1, §6
        let record = ByteBuffer(bytes: [21, 3, 3, 0, 2, 2, alert])
        context.writeAndFlush(self.wrapOutboundOut(record), promise: nil)
        context.close(promise: nil)
    }

    func read(context: ChannelHandlerContext) {
        guard self.isStopped || self.pause != nil else { return self.readNow(context) }
        self.wantsRead = true
    }

    private func readNow(_ context: ChannelHandlerContext) {
        if let pace {
            self.pause = context.eventLoop.assumeIsolated().scheduleTask(
                in: .milliseconds(Int64(pace.everyMilliseconds))
            ) {
                self.pause = nil
                self.catchUp()
            }
        }
        context.read()
    }

    private func catchUp() {
        guard self.wantsRead, !self.isStopped, self.pause == nil, let context = self.context else { return }
        self.wantsRead = false
        self.readNow(context)
    }

    /// Stops or starts reading.
    func setStopped(_ isStopped: Bool) {
        self.isStopped = isStopped
        self.catchUp()
    }

    /// Reads input in small parts with pauses, or as usual.
    func setPace(_ pace: APNSSimulatorPace?) {
        guard self.pace != pace, let channel = self.context?.channel else { return }
        self.pace = pace
        let allocator: any RecvByteBufferAllocator =
            pace.map { FixedSizeRecvByteBufferAllocator(capacity: $0.bytes) } ?? AdaptiveRecvByteBufferAllocator()
        channel.setOption(.recvAllocator, value: allocator).whenFailure { _ in }
        channel.setOption(.maxMessagesPerRead, value: pace == nil ? UInt(4) : UInt(1)).whenFailure { _ in }
        guard pace == nil else { return }
        self.pause?.cancel()
        self.pause = nil
        self.catchUp()
    }

    /// Closes the socket with FIN; TLS above cannot send close_notify.
    func cut() {
        self.hasEnded = true
        self.context?.close(promise: nil)
    }

    /// Closes the socket with RST.
    func reset() {
        self.hasEnded = true
        guard let context = self.context else { return }
        // Source: socket(7), SO_LINGER: with a time of 0 close sends RST
        let set = (context.channel as? any SocketOptionProvider)?.setSoLinger(linger(l_onoff: 1, l_linger: 0))
        guard let set else { return context.close(promise: nil) }
        set.assumeIsolated().whenComplete { _ in self.context?.close(promise: nil) }
    }

    /// Sends FIN and continues to read.
    func halfClose() { self.context?.close(mode: .output, promise: nil) }
}
