import NIOCore

/// The port for notifications, which may be closed for a while and then opens with the same number.
///
/// Thread: the simulator's event loop. While the port is closed it is reserved, so that no other process gets it.
final class APNSSimulatorListener {
    let port: Int
    private let bindPort: @Sendable (_ port: Int) -> EventLoopFuture<any Channel>
    private let eventLoop: any EventLoop
    private var channel: (any Channel)?
    private var reserved: ReservedPort?
    private var isClosed = false
    private var isBinding = false
    private var hasEnded = false

    /// The pause before another attempt to bind the port.
    static let pause = TimeAmount.milliseconds(20)

    init(
        _ channel: any Channel, eventLoop: any EventLoop,
        bind: @escaping @Sendable (_ port: Int) -> EventLoopFuture<any Channel>
    ) {
        self.channel = channel
        self.port = channel.localAddress?.port ?? 0
        self.bindPort = bind
        self.eventLoop = eventLoop
    }

    /// Closes the port or opens it again.
    func setClosed(_ isClosed: Bool) {
        guard self.isClosed != isClosed else { return }
        self.isClosed = isClosed
        guard isClosed else { return self.bind() }
        let closing = self.channel?.close()
        self.channel = nil
        closing?.hop(to: self.eventLoop).assumeIsolated().whenComplete { _ in
            guard self.isClosed, !self.hasEnded else { return }
            self.reserved = try? ReservedPort(UInt16(clamping: self.port))
        }
    }

    /// Closes the port permanently.
    func end() {
        self.hasEnded = true
        self.reserved?.release()
        self.channel?.close(promise: nil)
        self.channel = nil
    }

    private func bind() {
        guard !self.isClosed, !self.hasEnded, self.channel == nil, !self.isBinding else { return }
        self.isBinding = true
        self.bindPort(self.port).hop(to: self.eventLoop).assumeIsolated().whenComplete {
            self.isBinding = false
            switch $0 {
            case .success(let channel) where !self.isClosed && !self.hasEnded:
                self.channel = channel
                self.reserved?.release()
                self.reserved = nil
            case .success(let channel): channel.close(promise: nil)
            case .failure: self.eventLoop.assumeIsolated().scheduleTask(in: Self.pause) { self.bind() }
            }
        }
    }
}
