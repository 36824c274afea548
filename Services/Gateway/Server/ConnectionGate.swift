import CoreMetrics
import NIOCore
import Synchronization

/// Lets connections in as far as the limits go, and closes the others before anything is set up for them.
///
/// Stands in the pipeline of the listening socket, on whose loop it decides; connections leave from loops of their own.
final class ConnectionGate: Sendable {
    private let limits: Mutex<ConnectionLimits>
    private let proxies: TrustedProxies
    private let metrics: EdgeMetrics

    init(limits: ConnectionLimits, proxies: TrustedProxies, metrics: EdgeMetrics) {
        self.limits = Mutex(limits)
        self.proxies = proxies
        self.metrics = metrics
    }

    /// The handler for the listening socket's pipeline.
    func handler() -> some ChannelInboundHandler { Handler(gate: self) }

    private func admit(_ channel: any Channel) -> Bool {
        let peer = self.proxies.peer(channel.remoteAddress)
        let client = peer.isTrusted ? nil : peer.client
        if let refusal = self.limits.withLock({ $0.admit(client) }) {
            self.metrics.refused(refusal)
            return false
        }
        self.metrics.connections.increment()
        channel.closeFuture.whenComplete { _ in
            self.limits.withLock { $0.leave(client) }
            self.metrics.connections.decrement()
        }
        return true
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
