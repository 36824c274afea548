import NIOCore

/// The last handler of a connection's pipeline: turns bytes into replies for the link, and reports the connection's end
/// to it.
///
/// It exists before the link knows of the connection and may outlive the link's interest in it; between `adopt` and
/// `release` everything goes to the link, before and after nothing does.
final class ConnectionHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private var reader: ReplyReader
    private var link: RedisLink?
    private var failure: (any Error)?

    /// - Throws: `RedisError` if there is no memory for a reader.
    init() throws(RedisError) { self.reader = try ReplyReader() }

    /// Makes the link receive replies, and the end of the connection, from this call on.
    func adopt(by link: RedisLink) { self.link = link }

    /// Detaches the link, which receives nothing more.
    func release() { self.link = nil }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        self.reader.feed(self.unwrapInboundIn(data))
        do {
            // The link may release this handler while it handles a reply.
            while let link, let reply = try self.reader.next() { link.received(reply) }
        } catch {
            self.link?.lost(error)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        self.failure = error
        self.link?.lost(error)
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.link?.lost(self.failure ?? ChannelError.eof)
        context.fireChannelInactive()
    }
}
