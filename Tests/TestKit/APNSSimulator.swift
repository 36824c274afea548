import Cryptography
import NIOCore
import NIOHTTP1
import NIOHTTP2
import NIOPosix
import NIOSSL

/// A stand-in for APNs: HTTP/2 over TLS, as strict as Apple's rules, and can be told to fail.
///
/// On swift-nio-http2 and not on nghttp2, so that the pusher's client never talks to its own library. Everything runs
/// on one event loop of its own. Bounded: the journal, the faults, who waits.
/// Source: Wallet Orders §4
public final class APNSSimulator: Sendable {
    /// Where notifications go: `https://localhost:PORT`.
    public let url: String
    /// Where faults are ordered and deliveries read: `http://127.0.0.1:PORT`.
    public let adminURL: String

    private let group: MultiThreadedEventLoopGroup
    private let state: NIOLoopBound<APNSSimulatorState>
    private let listeners: [any Channel]

    private init(
        group: MultiThreadedEventLoopGroup, state: NIOLoopBound<APNSSimulatorState>, push: any Channel,
        admin: any Channel
    ) {
        self.group = group
        self.state = state
        self.listeners = [push, admin]
        self.url = "https://localhost:\(push.localAddress?.port ?? 0)"
        self.adminURL = "http://127.0.0.1:\(admin.localAddress?.port ?? 0)"
    }

    /// Binds both ports on 127.0.0.1; ready when it returns.
    /// - Throws: errors of NIO and NIOSSL: a port is taken, a certificate is unreadable.
    public static func start(_ configuration: APNSSimulatorConfiguration) async throws -> APNSSimulator {
        let context = try Self.context(configuration)
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let loop = group.any()
        do {
            let state = try await loop.submit {
                NIOLoopBound(APNSSimulatorState(configuration, eventLoop: loop), eventLoop: loop)
            }.get()
            let push = try await ServerBootstrap(group: group)
                .serverChannelOption(.backlog, value: 256)
                .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
                .childChannelInitializer { Self.configure($0, context, state) }
                .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
                .bind(configuration.port)
            let admin = try await ServerBootstrap(group: group)
                .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
                .childChannelInitializer { channel in
                    channel.eventLoop.makeCompletedFuture {
                        try channel.pipeline.syncOperations.configureHTTPServerPipeline()
                        try channel.pipeline.syncOperations.addHandler(APNSSimulatorAdmin(state.value))
                    }
                }
                .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
                .bind(configuration.adminPort)
            return APNSSimulator(group: group, state: state, push: push, admin: admin)
        } catch {
            try? await group.shutdownGracefully()
            throw error
        }
    }

    /// Closes everything and ends its thread. The simulator is of no use afterwards.
    public func stop() async {
        for listener in self.listeners { try? await listener.close() }
        try? await self.run { $0.releaseWaiters() }
        try? await self.group.shutdownGracefully()
    }

    /// Deliveries with a higher sequence; waits up to `wait` for the first when there is none.
    public func deliveries(after sequence: UInt64 = 0, wait: Duration = .zero) async throws -> APNSSimulatorDeliveries {
        let amount = TimeAmount(wait)
        return try await self.state.eventLoop.flatSubmit { [state] in
            state.value.wait(after: sequence, atMost: amount).map {
                state.value.deliveries(after: sequence, limit: .max)
            }
        }.get()
    }

    /// Forgets the journal; sequences go on.
    public func clearDeliveries() async throws { try await self.run { $0.clearDeliveries() } }

    /// Puts a fault up, or does at once what is immediate.
    /// - Returns: how many connections were touched.
    @discardableResult
    public func add(_ fault: APNSSimulatorFault) async throws -> Int {
        let outcome = try await self.run { $0.add(fault)?.connections }
        guard let outcome else { throw APNSSimulatorError(description: "adding a fault: too many stand") }
        return outcome
    }

    /// Takes all faults down.
    public func clearFaults() async throws { try await self.run { $0.clearFaults() } }

    /// The open connections.
    public func connections() async throws -> [APNSSimulatorConnectionInformation] {
        try await self.run { $0.connectionInformation }
    }

    private func run<Value: Sendable>(
        _ body: @escaping @Sendable (APNSSimulatorState) throws -> Value
    ) async throws -> Value {
        try await self.state.eventLoop.submit { [state] in try body(state.value) }.get()
    }
}

extension APNSSimulator {
    /// TLS as APNs has it: 1.2 or later, ALPN h2 only, a client certificate asked for and not required.
    ///
    /// Source: Wallet Orders §4.2, §4.4
    private static func context(_ configuration: APNSSimulatorConfiguration) throws -> NIOSSLContext {
        var tls = TLSConfiguration.makeServerConfiguration(
            certificateChain: try NIOSSLCertificate.fromPEMBytes(configuration.certificateChainPEM).map {
                .certificate($0)
            },
            privateKey: .privateKey(try NIOSSLPrivateKey(bytes: configuration.privateKeyPEM, format: .pem)))
        tls.minimumTLSVersion = .tlsv12
        tls.applicationProtocols = ["h2"]
        if let trust = configuration.trustPEM {
            tls.certificateVerification = .optionalVerification
            tls.trustRoots = .certificates(try NIOSSLCertificate.fromPEMBytes(trust))
        }
        return try NIOSSLContext(configuration: tls)
    }

    private static func configure(
        _ channel: any Channel, _ context: NIOSSLContext, _ state: NIOLoopBound<APNSSimulatorState>
    ) -> EventLoopFuture<Void> {
        channel.eventLoop.makeCompletedFuture {
            let wire = APNSSimulatorWire()
            let pipeline = channel.pipeline.syncOperations
            try pipeline.addHandlers([wire, NIOSSLServerHandler(context: context)])
            return NIOLoopBound(wire, eventLoop: channel.eventLoop)
        }.flatMap { wire in
            channel.configureHTTP2SecureUpgrade(
                h2ChannelConfigurator: { channel in
                    channel.eventLoop.makeCompletedFuture { try Self.open(channel, state.value, wire.value) }
                },
                http1ChannelConfigurator: { $0.close() })
        }
    }

    /// Adds the HTTP/2 handlers once the handshake has shown who the client is, since the first SETTINGS depend on it.
    private static func open(_ channel: any Channel, _ state: APNSSimulatorState, _ wire: APNSSimulatorWire) throws {
        let pipeline = channel.pipeline.syncOperations
        let certificate = try pipeline.nioSSL_peerCertificate()
        let topic = try certificate.flatMap { try Certificate(der: $0.toDERBytes()).userIdentifier }
        let connection = state.open { number in
            APNSSimulatorConnection(
                number: number, hasCertificate: certificate != nil, certificateTopic: topic, state: state, wire: wire)
        }
        var http = NIOHTTP2Handler.ConnectionConfiguration()
        http.initialSettings = connection.initialSettings
        http.contentLengthValidation = .enabled
        // A load test is no attack.
        http.maximumRecentlyResetStreams = 10_000
        http.controlFrameRateLimit.maximumCount = .max
        var stream = NIOHTTP2Handler.StreamConfiguration()
        stream.streamResetFrameRateLimit.maximumCount = .max
        stream.streamErrorRateLimit.maximumCount = .max
        try pipeline.addHandlers([
            APNSSimulatorRecordWriter(),
            NIOHTTP2Handler(mode: .server, connectionConfiguration: http, streamConfiguration: stream),
            connection,
        ])
    }
}

extension ServerBootstrap {
    /// Binds to the loopback interface; an error says where.
    fileprivate func bind(_ port: Int) async throws -> any Channel {
        do {
            return try await self.bind(host: "127.0.0.1", port: port).get()
        } catch {
            throw APNSSimulatorError(description: "binding 127.0.0.1:\(port): \(error)")
        }
    }
}
