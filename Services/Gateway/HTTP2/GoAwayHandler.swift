import NIOCore
import NIOHTTP2

/// The GOAWAY frames of an HTTP/2 connection; between the library that makes frames and the network.
///
/// The library refuses each new stream after its first GOAWAY, even below the announced number, so the announcement of
/// an end passes it by. For an error of the connection it names no stream, or the highest there can be: here both
/// become the last stream that was processed. Source: RFC 9113 §5.4.1, §6.8
final class GoAwayHandler: ChannelOutboundHandler {
    typealias OutboundIn = IOData
    typealias OutboundOut = IOData

    /// Confirmed by the client, it proves that the announcement has arrived.
    static let ping = HTTP2PingData(withInteger: 0x5761_7962_696C_6C00)
    /// Source: RFC 9113 §4.1, §6.8
    private static let headLength = 9
    private static let type: UInt8 = 7

    /// The last stream that was processed.
    var lastStream = HTTP2StreamID.rootStream
    /// True if the library has sent GOAWAY for an error.
    private(set) var isForError = false
    /// True if the next write is the payload of the frame whose head was the last one.
    private var isPayloadNext = false
    private var context: ChannelHandlerContext?

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        guard !self.isPayloadNext, case .byteBuffer(var bytes) = self.unwrapOutboundIn(data),
            let head = bytes.getInteger(at: bytes.readerIndex, as: UInt32.self),
            bytes.readableBytes >= Self.headLength
        else {
            self.isPayloadNext = false
            return context.write(data, promise: promise)
        }
        self.isPayloadNext = Int(head >> 8) > bytes.readableBytes - Self.headLength
        guard UInt8(truncatingIfNeeded: head) == Self.type else { return context.write(data, promise: promise) }
        let payload = bytes.readerIndex + Self.headLength
        bytes.setInteger(UInt32(Int(self.lastStream)), at: payload)
        if bytes.getInteger(at: payload + 4, as: UInt32.self) != 0 { self.isForError = true }
        context.write(self.wrapOutboundOut(.byteBuffer(bytes)), promise: promise)
    }

    /// Sends GOAWAY with the highest number and a ping.
    func announce() {
        guard let context = self.context else { return }
        var bytes = context.channel.allocator.buffer(capacity: 2 * Self.headLength + 16)
        bytes.writeInteger(UInt32(8 << 8) | UInt32(Self.type))
        bytes.writeRepeatingByte(0, count: 5)
        bytes.writeInteger(UInt32(Int(HTTP2StreamID.maxID)))
        bytes.writeInteger(UInt32(0))
        bytes.writeInteger(UInt32(8 << 8) | 6)
        bytes.writeRepeatingByte(0, count: 5)
        bytes.writeInteger(Self.ping.integer)
        context.writeAndFlush(self.wrapOutboundOut(.byteBuffer(bytes)), promise: nil)
    }

    /// Returns when the network has everything that was written.
    func sent() -> EventLoopFuture<Void> {
        guard let context = self.context else { preconditionFailure("in a pipeline") }
        return context.writeAndFlush(self.wrapOutboundOut(.byteBuffer(ByteBuffer())))
    }
}
