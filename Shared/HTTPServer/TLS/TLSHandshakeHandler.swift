import CoreMetrics
import NIOCore
import NIOSSL
import NIOTLS

/// Waits for the end of a TLS handshake, within a limit, and replaces itself with the handlers of the chosen protocol.
final class TLSHandshakeHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer

    /// The longest time for a handshake. A phone on a bad line needs a second or two.
    static let limit = TimeAmount.seconds(10)

    private let limit: TimeAmount
    private let metrics: TransportMetrics
    private let onProtocol: (_ name: String?, any Channel) throws -> Void
    private var deadline: ConnectionDeadline?

    /// - Parameter onProtocol: sets up the pipeline for a protocol; nil if client and server agreed on none.
    init(
        limit: TimeAmount, metrics: TransportMetrics,
        onProtocol: @escaping (_ name: String?, any Channel) throws -> Void
    ) {
        self.limit = limit
        self.metrics = metrics
        self.onProtocol = onProtocol
    }

    func handlerAdded(context: ChannelHandlerContext) {
        self.deadline = ConnectionDeadline(on: context.eventLoop) { self.giveUp(context) }
        self.deadline?.move(to: .now() + self.limit)
    }

    func handlerRemoved(context: ChannelHandlerContext) { self.deadline?.drop() }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if event is ChannelShouldQuiesceEvent || event is ConnectionSlot.GiveWay {
            self.deadline?.drop()
            return context.close(promise: nil)
        }
        guard case .some(.handshakeCompleted(let name)) = event as? TLSUserEvent else {
            return context.fireUserInboundEventTriggered(event)
        }
        self.deadline?.drop()
        let channel = context.channel
        do {
            try self.onProtocol(name, channel)
            context.pipeline.syncOperations.removeHandler(context: context, promise: nil)
        } catch {
            context.close(promise: nil)
        }
    }

    /// Errors before the handler is removed come from the handshake: a wrong version, no TLS at all, an end.
    func errorCaught(context: ChannelHandlerContext, error: any Error) { self.giveUp(context) }

    private func giveUp(_ context: ChannelHandlerContext) {
        self.deadline?.drop()
        guard context.channel.isActive else { return }
        self.metrics.handshakesFailed.increment()
        context.close(promise: nil)
    }
}
