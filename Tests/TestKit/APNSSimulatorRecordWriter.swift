import NIOCore

/// Stands between HTTP/2 and TLS: all frames of a burst become one TLS record instead of one each.
final class APNSSimulatorRecordWriter: ChannelOutboundHandler {
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private var pending = ByteBuffer()
    private var promise: EventLoopPromise<Void>?

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        self.pending.writeImmutableBuffer(self.unwrapOutboundIn(data))
        guard let promise else { return }
        if let first = self.promise { first.futureResult.cascade(to: promise) } else { self.promise = promise }
    }

    func flush(context: ChannelHandlerContext) {
        if self.pending.readableBytes > 0 || self.promise != nil {
            let buffer = self.pending
            let promise = self.promise
            self.pending = context.channel.allocator.buffer(capacity: 16_384)
            self.promise = nil
            context.write(self.wrapOutboundOut(buffer), promise: promise)
        }
        context.flush()
    }

    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        self.flush(context: context)
        context.close(mode: mode, promise: promise)
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.promise?.fail(ChannelError.ioOnClosedChannel)
        self.promise = nil
    }
}
