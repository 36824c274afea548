import NIOCore
import NIOHTTP1

/// One HTTP/1 connection from a client. It finds requests with `RequestDecoder`, has them answered one after the other,
/// and writes the answers.
///
/// Thin: the decoder interprets bytes. The limits here are on time (a request must arrive within `requestLimit`,
/// however slowly its bytes come, and an answer must be read within `answerLimit`) and on input from a client that does
/// not wait for its answers (`readAheadLimit`).
final class HTTP1ConnectionHandler: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = Never
    typealias OutboundOut = ByteBuffer

    /// Bytes of later requests after which no more is read while one is being answered.
    static let readAheadLimit = 16 << 10
    /// The time for which the rest of a refused request is read and ignored, so that the client can read the refusal. A
    /// socket that is closed while bytes wait in it is reset, and the answer may be lost with it.
    static let lingering = TimeAmount.seconds(2)
    /// The length in bytes up to which the start of a body is copied to the end of the head: that is cheaper than
    /// another write.
    static let copiedLimit = 8 << 10

    private enum State {
        /// Goes to `answering`, or to `closing` if the bytes do not form a request.
        case receiving
        /// Goes to `receiving`, or to `closing` when the answer was the connection's last.
        case answering
        /// Further input is ignored.
        case closing
    }

    private let endpoints: any Responder
    private let slot: ConnectionSlot
    private let peer: Peer
    private let bodies: BodyAccount
    private let pipelined: PipelinedRequests
    private let requestLimit: TimeAmount
    private var decoder: RequestDecoder
    private var state = State.receiving
    /// That of the client's next expected action.
    private var deadline: ConnectionDeadline?
    /// True if a read was requested while there is enough to do.
    private var isReadHeld = false
    /// True if a request that has already arrived waits for its turn.
    private var isWaiting = false
    /// True if a part of the next request was noted in the slot.
    private var hasBegun = false
    /// True if no more input will arrive; requests already received are answered.
    private var isInputClosed = false
    /// True if the server accepts no further requests.
    private var isStopping = false
    private var dates = DateLine()
    /// The request of which a part has arrived, or that is answered, if it counts.
    private var counted: CountedRequest?
    /// Later requests, or the next one before its turn, if bytes of them wait.
    private var ahead: CountedRequest?
    private let presence = Presence()

    /// - Parameters:
    ///   - pipelined: those of the connection's event loop.
    ///   - requestLimit: the longest time to the first byte of a request, and from there to its last, unless the
    ///     endpoints allow less.
    init(
        endpoints: any Responder, slot: ConnectionSlot, peer: Peer, bodies: BodyAccount, pipelined: PipelinedRequests,
        requestLimit: TimeAmount
    ) {
        self.endpoints = endpoints
        self.slot = slot
        self.peer = peer
        self.bodies = bodies
        self.pipelined = pipelined
        self.requestLimit = requestLimit
        self.decoder = RequestDecoder(
            peer: peer, bodyLimit: RequestLimits.body, reading: endpoints.reading, presence: self.presence)
    }

    func handlerAdded(context: ChannelHandlerContext) {
        self.deadline = ConnectionDeadline(on: context.eventLoop) { self.hitDeadline(context) }
        self.deadline?.move(to: context.eventLoop.now + self.requestLimit)
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.deadline?.drop()
        self.presence.leave()
        self.uncountAhead()
        // A role that makes an answer keeps the body.
        if case .answering = self.state {} else { self.uncount() }
        // Requests that wait for their turn are forgotten.
        self.state = .closing
        self.decoder.discard()
    }

    // MARK: Input

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if case .closing = self.state { return }
        self.decoder.feed(self.unwrapInboundIn(data))
        self.proceed(context)
    }

    /// Decodes the next request from the bytes received, if it is time for one.
    private func proceed(_ context: ChannelHandlerContext) {
        defer { self.countAhead(context) }
        // A client that does not read answers gets no further ones.
        guard case .receiving = self.state, !self.isWaiting, context.channel.isWritable else { return }
        do {
            switch try self.decoder.next() {
            case .request(let request, let head): self.answer(request, head, context)
            case .expectsContinue:
                context.writeAndFlush(self.wrapOutboundOut(Self.continueLine), promise: nil)
                self.count(context)
                self.releaseRead(context)
            case nil:
                self.noteStart(context)
                self.count(context)
                if self.isInputClosed { context.close(promise: nil) } else { self.releaseRead(context) }
            }
        } catch {
            self.refuse(error, context)
        }
    }

    /// Restarts the time when a request begins: it has its own, however long the connection was idle before.
    private func noteStart(_ context: ChannelHandlerContext) {
        guard !self.hasBegun, self.decoder.isInsideRequest else { return }
        self.hasBegun = true
        let now = context.eventLoop.now
        self.slot.ended(at: now)
        self.deadline?.move(to: now + min(self.requestLimit, self.endpoints.reading?.arrivalLimit ?? self.requestLimit))
    }

    /// Counts the memory of a request that has arrived in part.
    private func count(_ context: ChannelHandlerContext) {
        guard let (client, bytes) = self.decoder.unfinished else { return }
        let counted = self.counted ?? CountedRequest(self.bodies, of: client, on: context.channel)
        self.counted = counted
        counted.arrived(bytes: bytes)
    }

    private func uncount() {
        self.counted?.ended()
        self.counted = nil
    }

    /// Counts the memory of requests that have arrived before their turn.
    private func countAhead(_ context: ChannelHandlerContext) {
        let isAhead =
            switch self.state {
            case .receiving: self.isWaiting || !context.channel.isWritable
            case .answering: true
            case .closing: false
            }
        guard isAhead, self.decoder.bufferedBytes > 0 else { return self.uncountAhead() }
        let client = self.peer.isTrusted ? nil : self.peer.client
        let ahead = self.ahead ?? CountedRequest(self.bodies, of: client, on: context.channel)
        self.ahead = ahead
        ahead.arrived(bytes: self.decoder.storageBytes)
    }

    private func uncountAhead() {
        self.ahead?.ended()
        self.ahead = nil
    }

    /// Refuses what has arrived before its turn: the answer in progress becomes the last one.
    private func giveWayAhead(_ context: ChannelHandlerContext) {
        self.ahead = nil
        switch self.state {
        case .receiving: self.refuse(.gaveWay, context)
        case .answering:
            self.decoder.discard()
            self.isStopping = true
        case .closing: break
        }
    }

    /// Source: RFC 9110 §10.1.1
    private static let continueLine = ByteBuffer(string: "HTTP/1.1 100 Continue\r\n\r\n")

    private func answer(_ request: Request, _ head: RequestHead, _ context: ChannelHandlerContext) {
        self.state = .answering
        self.slot.began()
        if self.counted != nil || request.body.readableBytes >= BodyAccount.large {
            self.counted =
                self.counted ?? CountedRequest(self.bodies, of: self.peer.counted(request), on: context.channel)
            self.counted?.completed(bytes: request.body.readableBytes)
        }
        // The request itself goes as soon as the role no longer needs it.
        let withBody = request.method != .head
        let answer = self.endpoints.answer(request, on: context.eventLoop)
        // The closure captures only objects of this loop, on which the answer arrives.
        answer.assumeIsolated().whenSuccess { answer in
            self.uncount()
            guard case .answering = self.state else { return }
            let isLast =
                !head.keepsAlive || self.isStopping || self.slot.isDraining
                || (self.isInputClosed && self.decoder.bufferedBytes == 0)
            let line = ResponseHead(isVersion11: head.isVersion11, keepsAlive: !isLast)
            self.write(answer, line, withBody: withBody, context)
            self.answered(isLast: isLast, context)
        }
    }

    private func answered(isLast: Bool, _ context: ChannelHandlerContext) {
        guard !isLast else { return self.close(context) }
        self.state = .receiving
        self.hasBegun = false
        let now = context.eventLoop.now
        // A client that is still reading the answer is not idle.
        if context.channel.isWritable { self.slot.ended(at: now) }
        self.deadline?.move(to: now + (context.channel.isWritable ? self.requestLimit : RequestLimits.answer))
        guard self.decoder.bufferedBytes > 0 else { return self.releaseRead(context) }
        self.isWaiting = true
        self.pipelined.wait {
            self.isWaiting = false
            self.proceed(context)
        }
    }

    // MARK: Output

    private func write(
        _ answer: Answer, _ head: ResponseHead, withBody: Bool, _ context: ChannelHandlerContext
    ) {
        guard context.channel.isActive else { return }
        var body = withBody ? answer.body[...] : []
        let first = body.first?.readableBytes ?? Self.copiedLimit + 1
        let room = first <= Self.copiedLimit ? first : 0
        var bytes = head.bytes(
            of: answer, date: self.dates.text(), room: room, allocator: context.channel.allocator)
        if room > 0, let part = body.popFirst() { bytes.writeImmutableBuffer(part) }
        context.write(self.wrapOutboundOut(bytes), promise: nil)
        for part in body where part.readableBytes > 0 { context.write(self.wrapOutboundOut(part), promise: nil) }
        context.flush()
    }

    /// Answers invalid input, and ends the connection.
    private func refuse(_ fault: RequestFault, _ context: ChannelHandlerContext) {
        let answer = self.endpoints.refusal(fault, of: self.decoder.headed, on: context.eventLoop)
        self.write(answer, ResponseHead(isVersion11: true, keepsAlive: false), withBody: true, context)
        self.close(context)
    }

    /// Ends the connection after the last answer, once that has been sent.
    ///
    /// The other direction stays open for a moment and further input is discarded.
    private func close(_ context: ChannelHandlerContext) {
        self.state = .closing
        self.uncount()
        self.uncountAhead()
        self.decoder.discard()
        self.deadline?.move(to: context.eventLoop.now + RequestLimits.answer)
        let sent = context.eventLoop.makePromise(of: Void.self)
        sent.futureResult.assumeIsolated().whenComplete { _ in
            self.deadline?.move(to: context.eventLoop.now + Self.lingering)
            guard !self.isInputClosed else { return context.close(promise: nil) }
            context.close(mode: .output, promise: nil)
            self.releaseRead(context)
        }
        context.writeAndFlush(self.wrapOutboundOut(ByteBuffer()), promise: sent)
    }

    // MARK: Flow, time and the end

    func read(context: ChannelHandlerContext) {
        switch self.state {
        case .receiving where !self.isWaiting: self.isReadHeld = !context.channel.isWritable
        case .receiving, .answering: self.isReadHeld = self.decoder.bufferedBytes >= Self.readAheadLimit
        case .closing: self.isReadHeld = false
        }
        if !self.isReadHeld { context.read() }
    }

    private func releaseRead(_ context: ChannelHandlerContext) {
        guard self.isReadHeld else { return }
        self.isReadHeld = false
        context.read()
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        let isWritable = context.channel.isWritable
        if case .receiving = self.state {
            let now = context.eventLoop.now
            if isWritable { self.slot.ended(at: now) }
            self.deadline?.move(to: now + (isWritable ? self.requestLimit : RequestLimits.answer))
        }
        if isWritable { self.proceed(context) }
        context.fireChannelWritabilityChanged()
    }

    private func hitDeadline(_ context: ChannelHandlerContext) {
        switch self.state {
        // The endpoints themselves limit the duration of an answer.
        case .answering: self.deadline?.move(to: context.eventLoop.now + self.requestLimit)
        case .receiving where self.decoder.isInsideRequest && context.channel.isWritable:
            self.refuse(RequestFault(status: .requestTimeout, message: "the request came too slowly"), context)
        case .receiving, .closing: context.close(promise: nil)
        }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case ChannelEvent.inputClosed:
            self.isInputClosed = true
            self.presence.leave()
            if case .closing = self.state { context.close(promise: nil) } else { self.proceed(context) }
        case is ChannelShouldQuiesceEvent:
            self.isStopping = true
            if case .receiving = self.state, !self.decoder.isInsideRequest { context.close(promise: nil) }
        // An idle connection stays open: a request may be on its way, and its answer says that it is the last.
        case is ConnectionSlot.Drain: break
        case is ConnectionSlot.GiveWay:
            if self.slot.isGivingWay, case .receiving = self.state { context.close(promise: nil) }
        case let event as CountedRequest.GiveWay:
            if event.request === self.ahead { return self.giveWayAhead(context) }
            guard event.request === self.counted, case .receiving = self.state else { return }
            self.refuse(.gaveWay, context)
        default: context.fireUserInboundEventTriggered(event)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}

/// The connections of one event loop that already have another request when one has been answered. A few of these
/// requests are decoded at a time, in turn, and between the turns the loop serves all other connections.
///
/// Without it, a client that pipelines thousands of cheap requests would have all of them answered before any other
/// client: a loop runs all ready tasks, including those that a task adds, before it checks its sockets. Wallet does not
/// pipeline, so other clients bear the cost.
/// Bounded: each connection waits here at most once.
final class PipelinedRequests: Sendable {
    /// Requests decoded in one turn. They take about a third of `pause`, which bounds their share of the loop.
    static let requestsATurn = 8
    /// The time between two turns: 8,000 pipelined requests per second and loop.
    static let pause = TimeAmount.milliseconds(1)

    private struct State {
        /// Each decodes the next request of a connection, if that is still open.
        var waiting = CircularBuffer<() -> Void>()
        var isScheduled = false
    }

    private let eventLoop: any EventLoop
    private let state: NIOLoopBoundBox<State>

    init(_ eventLoop: any EventLoop) {
        self.eventLoop = eventLoop
        self.state = .makeBoxSendingValue(State(), eventLoop: eventLoop)
    }

    /// Calls the closure in its turn, never immediately. Must be called on the loop.
    func wait(_ decode: @escaping () -> Void) {
        self.state.value.waiting.append(decode)
        self.schedule()
    }

    private func schedule() {
        guard !self.state.value.isScheduled else { return }
        self.state.value.isScheduled = true
        self.eventLoop.assumeIsolated().scheduleTask(in: Self.pause) { self.run() }
    }

    private func run() {
        self.state.value.isScheduled = false
        for _ in 0..<Self.requestsATurn {
            guard let decode = self.state.value.waiting.popFirst() else { return }
            decode()
        }
        if !self.state.value.waiting.isEmpty { self.schedule() }
    }
}
