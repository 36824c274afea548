import NIOCore

/// The handler between HTTP/2 and TLS, which leaves SETTINGS and GOAWAY to the simulator.
///
/// NIOHTTP2Handler ends a connection whose client opens too many streams, and refuses every stream once it has sent
/// GOAWAY. The simulator must be able to do neither, and must see the behaviour of clients. So the handler above sees
/// no limit (its SETTINGS are dropped and acknowledged here), and the real SETTINGS and GOAWAY are written here as
/// bytes. All frames of a burst are written together.
/// Source: RFC 9113 §4.1, §6.5, §6.8
final class APNSSimulatorGate: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private var context: ChannelHandlerContext?
    private var pending = ByteBuffer()
    private var promise: EventLoopPromise<Void>?
    /// The SETTINGS frame that opens the connection.
    private var preface: [UInt8]
    private var hasDroppedSettings = false
    private var isHeld = false
    private var trickle: APNSSimulatorPace?
    private var drip: Scheduled<Void>?
    /// The beginning of a frame's header, fewer than nine bytes, from the end of a read.
    private var carry = ByteBuffer()
    /// The number of bytes of a frame, or of the client's preface, that have yet to pass.
    private var passing = 24
    private var hasSeenSettings = false
    private var acknowledges = false
    /// Called between two frames when the client has acknowledged our SETTINGS.
    var onSettingsAcknowledged: () -> Void = {}

    /// - Parameter settings: the server's first SETTINGS.
    init(settings: [(identifier: UInt16, value: UInt32)]) { self.preface = Self.settings(settings) }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.drip?.cancel()
        self.promise?.fail(ChannelError.ioOnClosedChannel)
        self.promise = nil
        self.context = nil
    }

    // MARK: from the client

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var input = self.unwrapInboundIn(data)
        if self.carry.readableBytes > 0 {
            self.carry.writeBuffer(&input)
            (input, self.carry) = (self.carry, ByteBuffer())
        }
        let end = input.writerIndex
        var begin = input.readerIndex
        var position = begin
        while position < end {
            if self.passing > 0 {
                let step = min(self.passing, end - position)
                position += step
                self.passing -= step
            } else if end - position < 9 {
                self.carry = input.getSlice(at: position, length: end - position) ?? ByteBuffer()
                break
            } else {
                let isOurs = self.takeHeader(of: input, at: position)
                if isOurs { self.pass(input, begin, position, context) }
                position += 9
                if isOurs {
                    begin = position
                    self.onSettingsAcknowledged()
                }
            }
            if self.acknowledges, self.passing == 0 {
                self.acknowledges = false
                self.pass(input, begin, position, context)
                begin = position
                context.fireChannelRead(self.wrapInboundOut(ByteBuffer(bytes: [0, 0, 0, 4, 1, 0, 0, 0, 0])))
            }
        }
        self.pass(input, begin, position, context)
    }

    /// - Returns: true if the frame is an acknowledgement of our SETTINGS, which is not passed on.
    private func takeHeader(of input: ByteBuffer, at position: Int) -> Bool {
        let bytes = input.viewBytes(at: position, length: 5) ?? ByteBufferView(ByteBuffer())
        guard bytes.count == 5 else { return false }
        let start = bytes.startIndex
        let length = Int(bytes[start]) << 16 | Int(bytes[start + 1]) << 8 | Int(bytes[start + 2])
        let isSettings = bytes[start + 3] == 4
        if isSettings, bytes[start + 4] & 1 == 1, length == 0, self.hasSeenSettings { return true }
        self.passing = length
        if isSettings, !self.hasSeenSettings {
            self.hasSeenSettings = true
            self.acknowledges = true
        }
        return false
    }

    private func pass(_ input: ByteBuffer, _ begin: Int, _ end: Int, _ context: ChannelHandlerContext) {
        guard end > begin, let slice = input.getSlice(at: begin, length: end - begin) else { return }
        context.fireChannelRead(self.wrapInboundOut(slice))
    }

    // MARK: to the client

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        var buffer = self.unwrapOutboundIn(data)
        if !self.hasDroppedSettings {
            // The handler's first write begins with its SETTINGS.
            self.hasDroppedSettings = true
            let length = buffer.getBytes(at: buffer.readerIndex, length: 3)
                .map { Int($0[0]) << 16 | Int($0[1]) << 8 | Int($0[2]) }
            buffer.moveReaderIndex(forwardBy: min(buffer.readableBytes, 9 + (length ?? 0)))
            self.pending.writeBytes(self.preface)
            self.preface = []
        }
        self.pending.writeImmutableBuffer(buffer)
        guard let promise else { return }
        if let first = self.promise { first.futureResult.cascade(to: promise) } else { self.promise = promise }
    }

    func flush(context: ChannelHandlerContext) {
        guard !self.isHeld else { return }
        if self.trickle != nil {
            if self.drip == nil { self.dripOnce() }
        } else {
            self.writeAll(context)
        }
        context.flush()
    }

    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        if !self.isHeld { self.writeAll(context) }
        context.flush()
        context.close(mode: mode, promise: promise)
    }

    private func writeAll(_ context: ChannelHandlerContext) {
        guard self.pending.readableBytes > 0 || self.promise != nil else { return }
        let (buffer, promise) = (self.pending, self.promise)
        self.pending = context.channel.allocator.buffer(capacity: 16_384)
        self.promise = nil
        context.write(self.wrapOutboundOut(buffer), promise: promise)
    }

    private func dripOnce() {
        guard let trickle, let context = self.context, !self.isHeld, self.pending.readableBytes > 0 else { return }
        let length = min(trickle.bytes, self.pending.readableBytes)
        if let part = self.pending.readSlice(length: length) {
            context.writeAndFlush(self.wrapOutboundOut(part), promise: nil)
        }
        self.drip = context.eventLoop.assumeIsolated().scheduleTask(
            in: .milliseconds(Int64(trickle.everyMilliseconds))
        ) {
            self.drip = nil
            self.dripOnce()
        }
    }

    /// Holds back all output, or releases it.
    func setHeld(_ isHeld: Bool) {
        guard self.isHeld != isHeld else { return }
        self.isHeld = isHeld
        if let context, !isHeld { self.flush(context: context) }
    }

    /// Sends output in small parts with pauses, or as usual.
    func setTrickle(_ trickle: APNSSimulatorPace?) {
        guard self.trickle != trickle else { return }
        self.trickle = trickle
        self.drip?.cancel()
        self.drip = nil
        if let context { self.flush(context: context) }
    }

    /// Sends a frame of our own. Output of the handler above must have been flushed before.
    func send(_ frame: [UInt8]) {
        self.pending.writeBytes(frame)
        if let context { self.flush(context: context) }
    }
}

extension APNSSimulatorGate {
    /// Returns a SETTINGS frame.
    ///
    /// Source: RFC 9113 §6.5
    static func settings(_ settings: [(identifier: UInt16, value: UInt32)]) -> [UInt8] {
        var payload: [UInt8] = []
        for setting in settings {
            payload += Self.bytes(UInt32(setting.identifier)).suffix(2) + Self.bytes(setting.value)
        }
        return Self.frame(type: 4, payload)
    }

    /// Returns a GOAWAY frame.
    ///
    /// Source: RFC 9113 §6.8
    static func goAway(last: UInt32, errorCode: UInt32, debug: [UInt8]) -> [UInt8] {
        Self.frame(type: 7, Self.bytes(last & 0x7FFF_FFFF) + Self.bytes(errorCode) + debug)
    }

    /// Returns a frame of the connection, without flags.
    private static func frame(type: UInt8, _ payload: [UInt8]) -> [UInt8] {
        let count = UInt32(truncatingIfNeeded: payload.count)
        return Self.bytes(count).dropFirst() + [type, 0, 0, 0, 0, 0] + payload
    }

    private static func bytes(_ value: UInt32) -> [UInt8] {
        [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: value >> $0) }
    }
}
