import Cryptography
import NIOCore
import NIOHTTP1
import NIOHTTP2
import NIOPosix
import NIOSSL

/// A simulator of APNs: HTTP/2 over TLS, as strict as Apple's rules, with faults on request.
///
/// It uses swift-nio-http2 and not nghttp2, so that the pusher's client never talks to its own library. Thread: one
/// event loop of its own. Bounded: the journal, the faults, the waiting requests.
/// Source: Wallet Orders §4
public final class APNSSimulator: Sendable {
    /// The URL for notifications: `https://localhost:PORT`.
    public let url: String
    /// The URL for setting faults and reading deliveries: `http://127.0.0.1:PORT`.
    public let adminURL: String

    private let group: MultiThreadedEventLoopGroup
    private let state: NIOLoopBound<APNSSimulatorState>
    private let admin: any Channel

    private init(
        group: MultiThreadedEventLoopGroup, state: NIOLoopBound<APNSSimulatorState>, push: any Channel,
        admin: any Channel
    ) {
        self.group = group
        self.state = state
        self.admin = admin
        self.url = "https://localhost:\(push.localAddress?.port ?? 0)"
        self.adminURL = "http://127.0.0.1:\(admin.localAddress?.port ?? 0)"
    }

    /// Binds both ports and returns when the simulator is ready.
    /// - Throws: `APNSSimulatorError` if a port is in use; errors of NIOSSL for an unreadable certificate.
    public static func start(_ configuration: APNSSimulatorConfiguration) async throws -> APNSSimulator {
        try TestServers.use("APNs simulator")
        let context = try Self.context(configuration)
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let loop = group.any()
        do {
            let state = try await loop.submit {
                NIOLoopBound(APNSSimulatorState(configuration, eventLoop: loop), eventLoop: loop)
            }.get()
            let bind = { @Sendable (port: Int) in
                ServerBootstrap(group: group)
                    .serverChannelOption(.backlog, value: 256)
                    .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
                    .childChannelInitializer { Self.configure($0, context, state) }
                    .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
                    .bind(host: configuration.host, port: port)
            }
            let push = try await Self.bound(configuration.host, configuration.port, bind)
            try await loop.submit {
                state.value.listener = APNSSimulatorListener(push, eventLoop: loop, bind: bind)
            }.get()
            let admin = try await Self.bound(configuration.host, configuration.adminPort) { port in
                ServerBootstrap(group: group)
                    .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
                    .childChannelInitializer { channel in
                        channel.eventLoop.makeCompletedFuture {
                            try channel.pipeline.syncOperations.configureHTTPServerPipeline()
                            try channel.pipeline.syncOperations.addHandler(APNSSimulatorAdmin(state.value))
                        }
                    }
                    .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
                    .bind(host: configuration.host, port: port)
            }
            return APNSSimulator(group: group, state: state, push: push, admin: admin)
        } catch {
            try? await group.shutdownGracefully()
            throw error
        }
    }

    /// Closes everything and ends the thread. The simulator cannot be used afterwards.
    public func stop() async {
        try? await self.admin.close()
        try? await self.run { $0.end() }
        try? await self.group.shutdownGracefully()
    }

    /// Returns the deliveries with a higher sequence; waits up to `wait` for the first if there is none.
    public func deliveries(after sequence: UInt64 = 0, wait: Duration = .zero) async throws -> APNSSimulatorDeliveries {
        let amount = TimeAmount(wait)
        return try await self.state.eventLoop.flatSubmit { [state] in
            state.value.wait(after: sequence, atMost: amount).map {
                state.value.deliveries(after: sequence, limit: .max)
            }
        }.get()
    }

    /// Clears the journal; sequences continue.
    public func clearDeliveries() async throws { try await self.run { $0.clearDeliveries() } }

    /// Adds a fault, or performs an immediate one.
    /// - Returns: the number of affected connections.
    @discardableResult
    public func add(_ fault: APNSSimulatorFault) async throws -> Int {
        let outcome = try await self.run { $0.add(fault)?.connections }
        guard let outcome else { throw APNSSimulatorError(description: "adding a fault: too many stand") }
        return outcome
    }

    /// Removes all faults.
    public func clearFaults() async throws { try await self.run { $0.clearFaults() } }

    /// Starts a scenario, which ends a running one.
    public func run(_ scenario: APNSSimulatorScenario) async throws { try await self.run { $0.run(scenario) } }

    /// Ends the scenario; the faults that it added remain.
    public func clearScenario() async throws { try await self.run { $0.clearScenario() } }

    /// Returns the number of steps of the scenario still to come; 0 without a scenario.
    public func remainingSteps() async throws -> Int { try await self.run { $0.script?.remaining ?? 0 } }

    /// Returns the events with a higher sequence.
    public func journal(after sequence: UInt64 = 0, limit: Int = .max) async throws -> APNSSimulatorEvents {
        try await self.run { $0.events(after: sequence, limit: limit) }
    }

    /// Returns the counters.
    public func statistics() async throws -> APNSSimulatorStatistics { try await self.run { $0.currentStatistics } }

    /// Returns the number of violations by clients, for each rule.
    public func violations() async throws -> [APNSSimulatorViolation: UInt64] {
        try await self.run { $0.statistics.violations }
    }

    /// Returns the open connections.
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
    /// Makes the TLS context as APNs has it: 1.2 or later, ALPN h2 only, a client certificate requested and not
    /// required.
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
            let fault = state.value.hitConnect(isAccepted: false)
            var alert: UInt8?
            if case .refuseHandshake(let number) = fault { alert = number }
            let wire = APNSSimulatorWire(alert: alert)
            let pipeline = channel.pipeline.syncOperations
            try pipeline.addHandlers([wire, NIOSSLServerHandler(context: context)])
            // Conditions for all connections apply to this one from its first byte; no connection has the number 0.
            wire.setPace(state.value.faults.conditions(connection: 0).slowReads)
            if let fault { Self.befall(fault, wire, channel.eventLoop, state.value) }
            return NIOLoopBound(wire, eventLoop: channel.eventLoop)
        }.flatMap { wire in
            channel.configureHTTP2SecureUpgrade(
                h2ChannelConfigurator: { channel in
                    channel.eventLoop.makeCompletedFuture { try Self.open(channel, state.value, wire.value) }
                },
                http1ChannelConfigurator: { $0.close() })
        }
    }

    /// Applies the faults that occur before the handshake.
    private static func befall(
        _ fault: APNSSimulatorConnectFault, _ wire: APNSSimulatorWire, _ loop: any EventLoop,
        _ state: APNSSimulatorState
    ) {
        switch fault {
        case .refuseHandshake(let alert): state.note(.refused(how: "alert \(alert)"), 0)
        case .slowHandshake(let milliseconds):
            wire.setStopped(true)
            loop.assumeIsolated().scheduleTask(in: .milliseconds(Int64(milliseconds))) { wire.setStopped(false) }
        case .drop:
            state.note(.refused(how: "drop"), 0)
            loop.assumeIsolated().execute { wire.reset() }
        case .lateSettings: break
        }
    }

    /// Adds the HTTP/2 handlers after the handshake has identified the client, since the first SETTINGS depend on it.
    private static func open(_ channel: any Channel, _ state: APNSSimulatorState, _ wire: APNSSimulatorWire) throws {
        let pipeline = channel.pipeline.syncOperations
        let certificate = try pipeline.nioSSL_peerCertificate()
        let topic = try certificate.flatMap { try Certificate(der: $0.toDERBytes()).userIdentifier }
        let connection = state.open { number in
            APNSSimulatorConnection(
                number: number, hasCertificate: certificate != nil, certificateTopic: topic, state: state, wire: wire)
        }
        connection.begin()
        var http = NIOHTTP2Handler.ConnectionConfiguration()
        http.initialSettings = APNSSimulatorConnection.handlerSettings
        http.contentLengthValidation = .enabled
        // A load test must not count as an attack.
        http.maximumRecentlyResetStreams = 10_000
        http.maximumConnectionGlitches = 1_000_000
        // A window of zero, rather than a huge limit: NIO immediately allocates a queue with room for as many elements
        // as the limit, and `Deque` does not detect that the size of `Int.max` elements overflows.
        http.controlFrameRateLimit.windowLength = .zero
        var stream = NIOHTTP2Handler.StreamConfiguration()
        stream.streamResetFrameRateLimit.windowLength = .zero
        stream.streamErrorRateLimit.windowLength = .zero
        try pipeline.addHandlers([
            connection.gate,
            NIOHTTP2Handler(mode: .server, connectionConfiguration: http, streamConfiguration: stream),
            connection,
        ])
    }

    /// Binds a port; an error names the address.
    private static func bound(
        _ host: String, _ port: Int, _ bind: (_ port: Int) -> EventLoopFuture<any Channel>
    ) async throws -> any Channel {
        do {
            return try await bind(port).get()
        } catch {
            throw APNSSimulatorError(description: "binding \(host):\(port): \(error)")
        }
    }
}
