import NIOCore
import NIOPosix
import NIOSSL
import Synchronization
import TestKit

/// A TLS server whose connections open and end at random; their output comes from `RandomHTTP2Server`.
final class RandomServer: Sendable {
    /// The events that tests inspect afterwards.
    struct Journal {
        var connections: UInt64 = 0
        var open = 0
        var violations: [String] = []
        var answered = 0
        var channels: [any Channel] = []
    }

    private let journal = Mutex(Journal())
    private let group: any EventLoopGroup
    private let listening = Mutex<(any Channel)?>(nil)
    private let tls: NIOSSLContext
    private let seed: UInt64

    var state: Journal { self.journal.withLock { $0 } }
    var port: Int { self.listening.withLock { $0?.localAddress?.port } ?? 0 }

    init(seed: UInt64, group: any EventLoopGroup) throws {
        let certificates = try Certificates.shared.get()
        var tls = TLSConfiguration.makeServerConfiguration(
            certificateChain: try NIOSSLCertificate.fromPEMBytes(certificates.server).map { .certificate($0) },
            privateKey: .privateKey(try NIOSSLPrivateKey(bytes: certificates.serverKey, format: .pem)))
        tls.applicationProtocols = ["h2"]
        self.tls = try NIOSSLContext(configuration: tls)
        self.group = group
        self.seed = seed
    }

    func start() async throws {
        try TestServers.use("HTTP/2 server")
        let channel = try await ServerBootstrap(group: self.group)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let number = self.journal.withLock { journal in
                        journal.connections += 1
                        return journal.connections
                    }
                    var random = SeededRandom(seed: self.seed &* 1_000 &+ number)
                    // Some connections are refused before TLS.
                    if Int.random(in: 0..<12, using: &random) == 0 { throw ChannelError.eof }
                    self.journal.withLock {
                        $0.open += 1
                        $0.channels.append(channel)
                    }
                    try channel.pipeline.syncOperations.addHandlers([
                        NIOSSLServerHandler(context: self.tls), RandomConnection(server: self, random: random),
                    ])
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        self.listening.withLock { $0 = channel }
    }

    func stop() async {
        let listening = self.listening.withLock { $0 }
        try? await listening?.close().get()
        for channel in self.state.channels { try? await channel.close().get() }
    }

    fileprivate func ended(_ connection: RandomHTTP2Server) {
        self.journal.withLock {
            $0.open -= 1
            $0.answered += connection.answered.count
            // Once the server has broken the rules, the client's violations do not count.
            if !connection.isBroken { $0.violations += connection.violations }
        }
    }
}

/// One connection of a `RandomServer`.
private final class RandomConnection: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// The way in which the connection ends, unless its client ends it first.
    private enum End: CaseIterable { case cut, close, halfClose, silence, deafness, never }

    private let server: RandomServer
    private var peer: RandomHTTP2Server
    private var random: SeededRandom
    private let end: End
    private var turnsLeft: Int
    private var hasBegun = false
    private var isOver = false

    init(server: RandomServer, random: SeededRandom) {
        var random = random
        var manner = RandomHTTP2Server.Manner()
        manner.broken = Int.random(in: 0..<4, using: &random) == 0 ? 2 : 0
        manner.goAway = Int.random(in: 0...3, using: &random)
        manner.reset = Int.random(in: 0...60, using: &random)
        manner.settings = Int.random(in: 0...40, using: &random)
        manner.isSilent = Int.random(in: 0..<10, using: &random) == 0
        manner.limit = [nil, 0, 1, 5, 100, 1_000].randomElement(using: &random) ?? nil
        self.server = server
        self.end = End.allCases.randomElement(using: &random) ?? .never
        self.turnsLeft = Int.random(in: 0...150, using: &random)
        self.peer = RandomHTTP2Server(seed: random.next(), manner: manner)
        self.random = random
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        self.peer.receive(self.unwrapInboundIn(data).readableBytesView)
        guard !self.hasBegun else { return }
        self.hasBegun = true
        self.turn(context)
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.isOver = true
        self.server.ended(self.peer)
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    private func turn(_ context: ChannelHandlerContext) {
        guard !self.isOver else { return }
        if self.turnsLeft == 0 { return self.leave(context) }
        self.turnsLeft -= 1
        var said: [UInt8] = []
        for _ in 0..<Int.random(in: 1...30, using: &self.random) { said += self.peer.speak() }
        var rest = said[...]
        while !rest.isEmpty {
            let piece = rest.prefix(Int.random(in: 1...2_000, using: &self.random))
            rest = rest.dropFirst(piece.count)
            context.writeAndFlush(self.wrapOutboundOut(ByteBuffer(bytes: piece)), promise: nil)
        }
        let pause = TimeAmount.microseconds(Int64.random(in: 0...6_000, using: &self.random))
        context.eventLoop.assumeIsolated().scheduleTask(in: pause) { self.turn(context) }
    }

    private func leave(_ context: ChannelHandlerContext) {
        let tls = try? context.pipeline.syncOperations.context(handlerType: NIOSSLServerHandler.self)
        switch self.end {
        // Closes from the TLS handler outwards, so that it cannot send close_notify.
        case .cut: tls?.close(promise: nil)
        case .close: context.close(promise: nil)
        case .halfClose: tls?.close(mode: .output, promise: nil)
        case .silence: break
        case .deafness:
            context.channel.setOption(.autoRead, value: false).assumeIsolated().whenComplete { _ in }
            // Resumes reading after a while, so that the end of the connection is noticed.
            context.eventLoop.assumeIsolated().scheduleTask(in: .seconds(1)) {
                context.channel.setOption(.autoRead, value: true).assumeIsolated().whenComplete { _ in }
            }
        case .never:
            self.turnsLeft = .max
            self.turn(context)
        }
    }
}
