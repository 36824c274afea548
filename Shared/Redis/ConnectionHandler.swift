import NIOCore

/// The last handler of a connection's pipeline: bytes in, replies to the link; the end of the connection to the link.
///
/// It exists before the link knows of the connection and may outlive the link's interest in it; between `adopt` and
/// `release` everything goes to the link, before and after nothing does.
final class ConnectionHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private var reader: ReplyReader
    private var link: RedisLink?
    private var failure: (any Error)?

    /// - Throws: `RedisError` when there is no memory for a reader.
    init() throws(RedisError) { self.reader = try ReplyReader() }

    /// From now on the link hears of replies and of the end.
    func adopt(by link: RedisLink) { self.link = link }

    /// The link wants to hear nothing any more.
    func release() { self.link = nil }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        self.reader.feed(self.unwrapInboundIn(data))
        do {
            // The link may let go of us while it handles a reply.
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
