import HTTP2
public import NIOCore
import NIOSSL

/// Sends notifications to APNs over HTTP/2: one credential, a pool of persistent connections.
///
/// Each notification gets exactly one outcome in every case. The client itself repeats only requests that APNs left
/// unprocessed (REFUSED_STREAM, above the last stream of GOAWAY); the caller decides about the rest by `verdict(of:)`.
/// A notification whose connection was lost may have been delivered; repeating it is harmless.
///
/// Owner: the caller, who must `close` it before its event loop group ends. Thread: any. Bounded: the queue, the
/// connections and their open streams, each request's time (`APNSConfiguration`).
public final class APNSClient: Sendable {
    /// The version of nghttp2 that this process runs with.
    public static var nghttp2Version: String { HTTP2.nghttp2Version() }

    private let eventLoop: any EventLoop
    private let loop: NIOLoopBoundBox<EventLoopClient>

    /// Creates a client, which connects when it gets the first notification.
    ///
    /// - Parameters:
    ///   - rootsPEM: the trusted roots; nil for the system's.
    ///   - proxy: the proxy that connections go through; nil for none.
    ///   - eventLoopGroup: one of its loops does all the work of this client.
    ///   - onReplies: called on that loop with the outcomes of submitted requests, in bursts; must not block.
    /// - Throws: `APNSError` with code `.configuration` if a certificate or key cannot be used, or if there is a proxy
    ///   and the endpoint is an IP address.
    public init(
        endpoint: APNSEndpoint, credential: APNSCredential, rootsPEM: [UInt8]?, proxy: APNSProxy? = nil,
        eventLoopGroup: any EventLoopGroup, configuration: APNSConfiguration = APNSConfiguration(),
        onReplies: @escaping @Sendable ([PushReply]) -> Void = { _ in }
    ) throws(APNSError) {
        guard proxy == nil || !endpoint.isAddress else {
            throw APNSError(
                .configuration, "\(endpoint) cannot be verified through a proxy: give the endpoint by its host name")
        }
        let tls = try makeTLSContext(credential: credential, rootsPEM: rootsPEM)
        let eventLoop = eventLoopGroup.next()
        self.eventLoop = eventLoop
        self.loop = NIOLoopBoundBox.makeBoxSendingValue(
            EventLoopClient(
                endpoint: endpoint, credential: credential, proxy: proxy, configuration: configuration, tls: tls,
                eventLoop: eventLoop, onReplies: onReplies),
            eventLoop: eventLoop)
    }

    /// Queues requests; each gets exactly one reply through `onReplies` in every case.
    ///
    /// Never waits: requests for which the queue has no room are answered with `.queueFull`.
    public func submit(_ requests: [PushRequest]) {
        guard !requests.isEmpty else { return }
        self.eventLoop.execute { self.loop.value.submit(requests) }
    }

    /// Removes the requests that wait for a stream and answers them with `.closed`. Those in flight get their answers,
    /// and later ones are sent.
    public func recall() { self.eventLoop.execute { self.loop.value.recall() } }

    /// Returns the present state of the connections and the queue.
    public func snapshot() async -> APNSSnapshot {
        await withCheckedContinuation { continuation in
            self.eventLoop.execute { continuation.resume(returning: self.loop.value.snapshot(now: .now())) }
        }
    }

    /// Sends a batch and waits for the outcome of each, in the order given.
    ///
    /// Returns within the bounds of the configuration. Cancellation of the task does not shorten that, because a
    /// notification that was sent cannot be recalled.
    public func send(_ notifications: [PushNotification]) async -> [PushOutcome] {
        await withCheckedContinuation { continuation in
            self.eventLoop.execute { self.loop.value.send(notifications, continuation) }
        }
    }

    /// Accepts nothing new, waits for the requests it has, at most `closeTimeout`, and disconnects.
    ///
    /// Requests that are queued after that time are `.unanswered` with code `.closed`, those in flight with code
    /// `.connectionLost`.
    public func close() async {
        let promise = self.eventLoop.makePromise(of: Void.self)
        self.eventLoop.execute { self.loop.value.close(promise) }
        // The promise is never failed.
        try? await promise.futureResult.get()
    }
}

/// Creates the TLS context of a client's connections.
///
/// Source: Wallet Orders §4.2: TLS 1.2 or later, ALPN h2
private func makeTLSContext(credential: APNSCredential, rootsPEM: [UInt8]?) throws(APNSError) -> NIOSSLContext {
    var configuration = TLSConfiguration.makeClientConfiguration()
    configuration.minimumTLSVersion = .tlsv12
    configuration.applicationProtocols = ["h2"]
    // A server that is gone sends no close_notify; `close` and retired connections must not wait long for it.
    configuration.shutdownTimeout = .seconds(1)
    var step = "roots"
    do {
        if let rootsPEM {
            let roots = try NIOSSLCertificate.fromPEMBytes(rootsPEM)
            guard !roots.isEmpty else { throw APNSError(.configuration, "no certificate in it") }
            configuration.trustRoots = .certificates(roots)
        }
        if case .certificate(let chainPEM, let keyPEM) = credential {
            step = "certificate"
            let chain = try NIOSSLCertificate.fromPEMBytes(chainPEM)
            guard !chain.isEmpty else { throw APNSError(.configuration, "no certificate in it") }
            configuration.certificateChain = chain.map { .certificate($0) }
            step = "private key"
            configuration.privateKey = .privateKey(try NIOSSLPrivateKey(bytes: keyPEM, format: .pem))
        }
        step = "certificate and key"
        return try NIOSSLContext(configuration: configuration)
    } catch {
        throw APNSError(.configuration, "reading the \(step) for APNs: \(error)")
    }
}
