import NIOCore

/// Stands next to the socket, below TLS, to end a connection without a goodbye.
final class APNSSimulatorWire: ChannelOutboundHandler {
    typealias OutboundIn = ByteBuffer

    private var context: ChannelHandlerContext?

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }
    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    /// Closes the socket; TLS above has no chance to send close_notify.
    func cut() { self.context?.close(promise: nil) }
}
