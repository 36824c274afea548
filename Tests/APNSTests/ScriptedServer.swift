import NIOCore
import NIOHPACK
import NIOHTTP2
import NIOPosix
import NIOSSL
import Synchronization
import TestKit

/// A TLS HTTP/2 server on swift-nio-http2 that is scripted frame by frame by a test.
final class ScriptedServer: Sendable {
    /// A complete request.
    struct Request: Sendable {
        let path: String
        let headers: [String: String]
        let body: [UInt8]
        /// The connection's number, counted from 0 over the life of the server.
        let connection: Int
        /// The request's number, counted from 0 on its connection.
        let index: Int
        let stream: Int32
        /// The address at which its connection arrived.
        let address: String
    }

    /// The server's action when a request is complete.
    indirect enum Step: Sendable {
        case answer(Int, String = "")
        /// Keeps the request open; `release` answers it.
        case hold
        /// Answers every held request of this connection.
        case release(Int)
        case reset(NIOHTTP2.HTTP2ErrorCode)
        /// - Parameter last: nil means this request.
        case goAway(last: Int32? = nil, reason: String)
        case limit(Int)
        /// Stops reading, so that nothing is answered, not even PINGs.
        case mute
        /// Ends its output without TLS close_notify, and continues to read.
        case halfClose
        /// Performs further steps after a delay.
        case after(TimeAmount, [Step])
        /// Ends the TCP connection without TLS close_notify.
        case cut
        case close
    }

    typealias Script = @Sendable (Request) -> [Step]

    /// The events that tests inspect afterwards.
    struct Journal {
        var requests: [Request] = []
        var connections = 0
        var mostOpen = 0
        var channels: [any Channel] = []
        /// The address at which each connection arrived.
        var addresses: [String] = []
    }

    private let journal = Mutex(Journal())
    private let script: Script
    private let group: any EventLoopGroup
    private let listening = Mutex<(any Channel)?>(nil)
    private let tls: NIOSSLContext
    private let limit: Int

    var requests: [Request] { self.journal.withLock { $0.requests } }
    var connections: Int { self.journal.withLock { $0.connections } }
    var addresses: [String] { self.journal.withLock { $0.addresses } }
    var mostOpen: Int { self.journal.withLock { $0.mostOpen } }
    var port: Int { self.listening.withLock { $0?.localAddress?.port } ?? 0 }

    /// - Parameter identity: certificate and key as PEM; nil for the usual ones.
    init(
        group: any EventLoopGroup, limit: Int = 100, clientRoots: [UInt8]? = nil,
        identity: (certificate: [UInt8], key: [UInt8])? = nil, script: @escaping Script
    ) throws {
        let certificates = try Certificates.shared.get()
        let identity = identity ?? (certificates.server, certificates.serverKey)
        var tls = TLSConfiguration.makeServerConfiguration(
            certificateChain: try NIOSSLCertificate.fromPEMBytes(identity.certificate).map { .certificate($0) },
            privateKey: .privateKey(try NIOSSLPrivateKey(bytes: identity.key, format: .pem)))
        tls.applicationProtocols = ["h2"]
        if let clientRoots {
            tls.certificateVerification = .noHostnameVerification
            tls.trustRoots = .certificates(try NIOSSLCertificate.fromPEMBytes(clientRoots))
        }
        self.tls = try NIOSSLContext(configuration: tls)
        self.group = group
        self.limit = limit
        self.script = script
    }

    /// Listens on a free port, or on the given one.
    func start(port: Int = 0, host: String = "127.0.0.1") async throws {
        try TestServers.use("HTTP/2 server")
        let channel = try await ServerBootstrap(group: self.group)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let number = self.journal.withLock { journal in
                        journal.channels.append(channel)
                        journal.connections += 1
                        journal.addresses.append(channel.localAddress?.ipAddress ?? "")
                        return journal.connections - 1
                    }
                    let settings = [HTTP2Setting(parameter: .maxConcurrentStreams, value: self.limit)]
                    try channel.pipeline.syncOperations.addHandlers([
                        NIOSSLServerHandler(context: self.tls),
                        NIOHTTP2Handler(mode: .server, initialSettings: settings),
                        ScriptedConnection(server: self, number: number),
                    ])
                }
            }
            .bind(host: host, port: port).get()
        self.listening.withLock { $0 = channel }
    }

    /// Closes the listener and all connections.
    func stop() async {
        let listening = self.listening.withLock { $0 }
        try? await listening?.close().get()
        for channel in self.journal.withLock({ $0.channels }) { try? await channel.close().get() }
    }

    fileprivate func steps(for request: Request, open: Int) -> [Step] {
        self.journal.withLock {
            $0.requests.append(request)
            $0.mostOpen = max($0.mostOpen, open)
        }
        return self.script(request)
    }
}

/// One connection of a `ScriptedServer`.
private final class ScriptedConnection: ChannelInboundHandler {
    typealias InboundIn = HTTP2Frame
    typealias OutboundOut = HTTP2Frame

    private let server: ScriptedServer
    private let number: Int
    private var open: [HTTP2StreamID: (headers: [String: String], body: [UInt8])] = [:]
    private var held: [HTTP2StreamID] = []
    private var count = 0

    init(server: ScriptedServer, number: Int) {
        self.server = server
        self.number = number
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let frame = self.unwrapInboundIn(data)
        switch frame.payload {
        case .headers(let headers):
            let fields = headers.headers.map { ($0.name, $0.value) }
            self.open[frame.streamID] = (Dictionary(fields) { $0 + "," + $1 }, [])
            if headers.endStream { self.finished(context, frame.streamID) }
        case .data(let data):
            if case .byteBuffer(let buffer) = data.data {
                self.open[frame.streamID]?.body.append(contentsOf: buffer.readableBytesView)
            }
            if data.endStream { self.finished(context, frame.streamID) }
        case .rstStream:
            self.open[frame.streamID] = nil
            self.held.removeAll { $0 == frame.streamID }
        default: break
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    private func finished(_ context: ChannelHandlerContext, _ stream: HTTP2StreamID) {
        guard let request = self.open[stream] else { return }
        let steps = self.server.steps(
            for: ScriptedServer.Request(
                path: request.headers[":path"] ?? "", headers: request.headers, body: request.body,
                connection: self.number, index: self.count, stream: Int32(Int(stream)),
                address: context.channel.localAddress?.ipAddress ?? ""), open: self.open.count)
        self.count += 1
        for step in steps { self.perform(step, context, stream) }
        context.flush()
    }

    private func perform(_ step: ScriptedServer.Step, _ context: ChannelHandlerContext, _ stream: HTTP2StreamID) {
        switch step {
        case .answer(let status, let body): self.answer(context, stream, status, body)
        case .hold: self.held.append(stream)
        case .release(let status):
            for stream in self.held { self.answer(context, stream, status, "") }
            self.held.removeAll()
        case .reset(let code):
            self.open[stream] = nil
            self.write(context, stream, .rstStream(code))
        case .goAway(let last, let reason):
            let data = ByteBuffer(string: "{\"reason\":\"\(reason)\"}")
            let lastStream = last.map { HTTP2StreamID(Int($0)) } ?? stream
            // Requests above the last stream are not answered.
            self.held.removeAll { $0 > lastStream }
            self.write(
                context, .rootStream, .goAway(lastStreamID: lastStream, errorCode: .noError, opaqueData: data))
        case .limit(let limit):
            self.write(
                context, .rootStream,
                .settings(.settings([HTTP2Setting(parameter: .maxConcurrentStreams, value: limit)])))
        case .mute:
            context.flush()
            context.channel.setOption(.autoRead, value: false).assumeIsolated().whenComplete { _ in }
        case .halfClose:
            context.flush()
            (try? context.pipeline.syncOperations.context(handlerType: NIOSSLServerHandler.self))?
                .close(mode: .output, promise: nil)
        case .after(let delay, let steps):
            context.eventLoop.assumeIsolated().scheduleTask(in: delay) {
                for step in steps { self.perform(step, context, stream) }
                context.flush()
            }
        case .cut:
            context.flush()
            // Closes from the TLS handler outwards, so that it cannot send close_notify.
            (try? context.pipeline.syncOperations.context(handlerType: NIOSSLServerHandler.self))?.close(promise: nil)
        case .close:
            context.flush()
            context.close(promise: nil)
        }
    }

    private func answer(_ context: ChannelHandlerContext, _ stream: HTTP2StreamID, _ status: Int, _ body: String) {
        let identifier = self.open[stream]?.headers["apns-id"] ?? ""
        self.open[stream] = nil
        let headers: HPACKHeaders = [":status": "\(status)", "apns-id": identifier]
        self.write(context, stream, .headers(.init(headers: headers, endStream: body.isEmpty)))
        guard !body.isEmpty else { return }
        self.write(context, stream, .data(.init(data: .byteBuffer(ByteBuffer(string: body)), endStream: true)))
    }

    private func write(_ context: ChannelHandlerContext, _ stream: HTTP2StreamID, _ payload: HTTP2Frame.FramePayload) {
        context.write(self.wrapOutboundOut(HTTP2Frame(streamID: stream, payload: payload)), promise: nil)
    }
}
