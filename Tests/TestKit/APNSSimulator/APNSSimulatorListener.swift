import NIOCore

/// The port for notifications, which may be closed for a while and comes back on the same number.
///
/// On the simulator's event loop. Between closing and binding somebody else may take the port; then it is tried again.
final class APNSSimulatorListener {
    let port: Int
    private let bindPort: @Sendable (_ port: Int) -> EventLoopFuture<any Channel>
    private let eventLoop: any EventLoop
    private var channel: (any Channel)?
    private var isClosed = false
    private var isBinding = false
    private var hasEnded = false

    /// How long to wait before the port is tried again.
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
        if isClosed {
            self.channel?.close(promise: nil)
            self.channel = nil
        } else {
            self.bind()
        }
    }

    /// Closes the port for good.
    func end() {
        self.hasEnded = true
        self.channel?.close(promise: nil)
        self.channel = nil
    }

    private func bind() {
        guard !self.isClosed, !self.hasEnded, self.channel == nil, !self.isBinding else { return }
        self.isBinding = true
        self.bindPort(self.port).hop(to: self.eventLoop).assumeIsolated().whenComplete {
            self.isBinding = false
            switch $0 {
            case .success(let channel) where !self.isClosed && !self.hasEnded: self.channel = channel
            case .success(let channel): channel.close(promise: nil)
            case .failure: self.eventLoop.assumeIsolated().scheduleTask(in: Self.pause) { self.bind() }
            }
        }
    }
}
