import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import Synchronization

/// An HTTP/1.1 client for the tools, with a pool of keep-alive connections per host and a deadline for each request.
///
/// Bounded: `connectionsPerHost` open connections; further requests wait in a queue, which advances since every holder
/// has a deadline. A `GET` on a reused connection that the server is just closing is retried once.
final class HTTPClient: Sendable {
    /// The right to use one of a host's connections: an open one, or room for a new one.
    private enum Lease: Sendable {
        case open(any Channel)
        case room
    }

    private struct Pool {
        var idle: [any Channel] = []
        var open = 0
        var waiting: [CheckedContinuation<Lease, Never>] = []
    }

    private let group: any EventLoopGroup
    private let connectionsPerHost: Int
    private let tls: NIOSSLContext?
    private let reroutes: [String: Int]
    private let deadline: Duration
    private let observer: Observer?
    private let pools = Mutex<[HTTPOrigin: Pool]>([:])

    /// Receives every request with its answer and the time that it took.
    typealias Observer = @Sendable (HTTPRequest, HTTPResponse, Duration) -> Void

    /// - Parameters:
    ///   - roots: PEM file with the roots for `https` servers; nil means the system's roots.
    ///   - identity: PEM files of a client certificate and its key.
    ///   - reroutes: ports of 127.0.0.1 to connect to instead of a host; TLS and `Host` keep the host's name.
    ///   - deadline: the default deadline of a request.
    init(
        group: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton, connectionsPerHost: Int = 16,
        roots: String? = nil, identity: (certificate: String, key: String)? = nil, reroutes: [String: Int] = [:],
        deadline: Duration = .seconds(10), observer: Observer? = nil
    ) throws(ToolError) {
        self.group = group
        self.connectionsPerHost = max(1, connectionsPerHost)
        self.reroutes = reroutes
        self.deadline = deadline
        self.observer = observer
        do {
            var configuration = TLSConfiguration.makeClientConfiguration()
            if let roots { configuration.trustRoots = .file(roots) }
            if let identity {
                configuration.certificateChain = try NIOSSLCertificate.fromPEMFile(identity.certificate)
                    .map { .certificate($0) }
                configuration.privateKey = .privateKey(try NIOSSLPrivateKey(file: identity.key, format: .pem))
            }
            self.tls = try NIOSSLContext(configuration: configuration)
        } catch {
            throw ToolError(
                .file,
                "reading the roots \(roots ?? "of the system") and the certificate "
                    + "\(identity?.certificate ?? "of none"): \(error)")
        }
    }

    /// Sends one request and waits for the whole answer; any status is an answer.
    /// - Parameter deadline: includes the wait for a connection; nil means the client's default.
    func send(_ request: HTTPRequest, within deadline: Duration? = nil) async throws(ToolError) -> HTTPResponse {
        let deadline = deadline ?? self.deadline
        let (origin, target) = try HTTPOrigin.split(request.url)
        var head = HTTPRequestHead(version: .http1_1, method: request.method, uri: target)
        for (name, value) in request.headers { head.headers.add(name: name, value: value) }
        if !head.headers.contains(name: "host") { head.headers.add(name: "host", value: origin.authority) }
        if !request.body.isEmpty || request.method == .POST {
            head.headers.add(name: "content-length", value: String(request.body.count))
        }
        let start = ContinuousClock.now
        let end = start + deadline
        var mayRepeat = request.method == .GET
        while true {
            let (channel, isFresh) = try await self.connection(to: origin, until: end)
            do {
                let response = try await self.exchange(head, request.body, on: channel, until: end)
                self.giveBack(response.isKeepAlive && channel.isActive ? channel : nil, to: origin)
                self.observer?(request, response, .now - start)
                return response
            } catch {
                self.giveBack(nil, to: origin)
                guard mayRepeat, !isFresh, error.code == .closed else {
                    throw ToolError(
                        error.code, "asking \(request.method.rawValue) \(origin.authority): \(error.message)")
                }
                mayRepeat = false
            }
        }
    }

    /// Closes idle connections. Requests in progress end by their deadlines.
    func close() async {
        let idle = self.pools.withLock { pools in
            let idle = pools.values.flatMap(\.idle)
            pools = pools.mapValues { pool in
                var pool = pool
                pool.open -= pool.idle.count
                pool.idle = []
                return pool
            }
            return idle
        }
        for channel in idle { try? await channel.close().get() }
    }

    private func exchange(
        _ head: HTTPRequestHead, _ body: [UInt8], on channel: any Channel, until end: ContinuousClock.Instant
    ) async throws(ToolError) -> HTTPResponse {
        let promise = channel.eventLoop.makePromise(of: HTTPResponse.self)
        let left = max(.zero, end - .now)
        let alarm = channel.eventLoop.scheduleTask(in: .microseconds(left.microseconds)) {
            promise.fail(ToolError(.timeout, "no answer within its deadline"))
            channel.close(promise: nil)
        }
        defer { alarm.cancel() }

        channel.writeAndFlush(HTTPExchange(head: head, body: body, promise: promise)).whenFailure { error in
            promise.fail(ToolError(.closed, "sending: \(error)"))
        }
        do {
            return try await promise.futureResult.get()
        } catch {
            channel.close(promise: nil)
            throw error as? ToolError ?? ToolError(.connection, "\(error)")
        }
    }

    private func connection(
        to origin: HTTPOrigin, until end: ContinuousClock.Instant
    ) async throws(ToolError) -> (any Channel, isFresh: Bool) {
        while true {
            switch await self.lease(origin) {
            case .open(let channel):
                if channel.isActive { return (channel, false) }
                // The server closed it while it was idle, which leaves room for another one.
                self.giveBack(nil, to: origin)
            case .room:
                do {
                    guard end > .now else { throw ToolError(.timeout, "no connection became free in time") }
                    return (try await self.connect(to: origin, within: end - .now), true)
                } catch {
                    self.giveBack(nil, to: origin)
                    if let error = error as? ToolError { throw error }
                    throw ToolError(.connection, "connecting to \(origin.authority): \(error)")
                }
            }
        }
    }

    private func connect(to origin: HTTPOrigin, within deadline: Duration) async throws -> any Channel {
        let tls = origin.isSecure ? self.tls : nil
        // An address is not a server name (RFC 6066 §3).
        let name = origin.host.allSatisfy { $0.isNumber || $0 == "." } ? nil : origin.host
        return try await ClientBootstrap(group: self.group)
            .connectTimeout(.microseconds(deadline.microseconds))
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    if let tls { try pipeline.addHandler(NIOSSLClientHandler(context: tls, serverHostname: name)) }
                    try pipeline.addHTTPClientHandlers()
                    try pipeline.addHandler(HTTPExchangeHandler())
                }
            }
            .connect(
                host: self.reroutes[origin.host] == nil ? origin.host : "127.0.0.1",
                port: self.reroutes[origin.host] ?? origin.port
            ).get()
    }

    private func lease(_ origin: HTTPOrigin) async -> Lease {
        await withCheckedContinuation { continuation in
            let lease: Lease? = self.pools.withLock { pools in
                if let channel = pools[origin, default: Pool()].idle.popLast() { return .open(channel) }
                if pools[origin, default: Pool()].open < self.connectionsPerHost {
                    pools[origin, default: Pool()].open += 1
                    return .room
                }
                pools[origin, default: Pool()].waiting.append(continuation)
                return nil
            }
            if let lease { continuation.resume(returning: lease) }
        }
    }

    /// - Parameter channel: nil if the connection is gone, which leaves room for another one.
    private func giveBack(_ channel: (any Channel)?, to origin: HTTPOrigin) {
        let next: CheckedContinuation<Lease, Never>? = self.pools.withLock { pools in
            var pool = pools[origin, default: Pool()]
            defer { pools[origin] = pool }

            if !pool.waiting.isEmpty { return pool.waiting.removeFirst() }
            if let channel { pool.idle.append(channel) } else { pool.open -= 1 }
            return nil
        }
        next?.resume(returning: channel.map { .open($0) } ?? .room)
    }
}
