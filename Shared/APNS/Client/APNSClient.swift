import HTTP2
public import Model
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

    /// Makes the fewest connections before there is a request. Events report the outcome.
    public func connect() { self.eventLoop.execute { self.loop.value.submit([]) } }

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

/// The outcome of one request; each request gets exactly one.
public struct PushReply: Hashable, Sendable {
    /// The request's number.
    public let number: UInt64
    public let outcome: PushOutcome
    /// The time from the request's first start to its outcome, refusals included; nil if it was never sent.
    public let elapsed: Duration?

    public init(number: UInt64, outcome: PushOutcome, elapsed: Duration?) {
        self.number = number
        self.outcome = outcome
        self.elapsed = elapsed
    }
}

/// One notification to send, with a number that identifies it to the caller.
public struct PushRequest: Sendable {
    /// Chosen by the caller; the client returns it and never interprets it.
    public let number: UInt64
    public let notification: PushNotification

    public init(number: UInt64, notification: PushNotification) {
        self.number = number
        self.notification = notification
    }
}

/// One call of `send`: collects an outcome for each notification, then resumes the caller once.
///
/// Lives on the client's event loop.
final class PushBatch {
    private var outcomes: [PushOutcome?]
    private var missing: Int
    private let continuation: CheckedContinuation<[PushOutcome], Never>

    init(count: Int, continuation: CheckedContinuation<[PushOutcome], Never>) {
        self.outcomes = Array(repeating: nil, count: count)
        self.missing = count
        self.continuation = continuation
        if count == 0 { continuation.resume(returning: []) }
    }

    /// Sets the outcome of one notification. The first counts; the client sets exactly one.
    func complete(_ index: Int, _ outcome: PushOutcome) {
        guard self.outcomes.indices.contains(index), self.outcomes[index] == nil else {
            assertionFailure("second outcome for one notification")
            return
        }
        self.outcomes[index] = outcome
        self.missing -= 1
        if self.missing == 0 { self.continuation.resume(returning: self.outcomes.compactMap(\.self)) }
    }
}

/// One notification to one device: something of this order type changed.
///
/// Source: Wallet Orders §4.1, §4.3
public struct PushNotification: Hashable, Sendable {
    /// `apns-push-type`
    public enum Kind: String, Hashable, Sendable { case background, alert }

    public var deviceToken: PushToken
    /// `apns-topic`
    public var topic: OrderTypeIdentifier
    /// `apns-expiration`: the time until which APNs stores it for an offline device; 0 if it must not be stored.
    public var expirationEpochSeconds: Int64
    /// `apns-priority`: 5 with `.background`, for which 10 is an error.
    public var priority: UInt8 = 5
    public var pushType = Kind.background
    /// `apns-collapse-id`, at most 64 bytes; nil for none. A device shows only the last of several with the same value.
    public var collapseIdentifier: String?
    /// The body, at most 4,096 bytes; APNs refuses an empty body.
    public var payload: [UInt8] = Self.emptyPayload

    public init(deviceToken: PushToken, topic: OrderTypeIdentifier, expirationEpochSeconds: Int64) {
        self.deviceToken = deviceToken
        self.topic = topic
        self.expirationEpochSeconds = expirationEpochSeconds
    }

    /// `{}`, one array for all notifications.
    public static let emptyPayload: [UInt8] = Array("{}".utf8)
}

/// The state of a client's pool at one moment, for gauges.
public struct APNSSnapshot: Hashable, Sendable {
    /// The state of a connection, or of a slot for one.
    public enum ConnectionState: String, Hashable, Sendable, CaseIterable {
        /// Resolves a name, or establishes TCP and TLS.
        case connecting
        /// Accepts requests.
        case open
        /// Accepts no requests and waits for the last answers.
        case draining
        /// Waits before it connects again.
        case backingOff = "backing-off"
    }

    /// The number of connections in each state; states without a connection are absent.
    public var connections: [ConnectionState: Int] = [:]
    /// The number of open streams of all connections.
    public var streamsInUse = 0
    /// The sum of the stream limits in force on the open connections, which may be below those that APNs announced.
    public var streamLimit = 0
    /// The number of requests that wait for a stream.
    public var queued = 0
    /// The age of the oldest queued request; nil if there is none.
    public var oldestQueued: Duration?
    /// The reason for the last failure of a connection; nil once any connection has delivered an answer since.
    public var lastFailure: APNSError?

    public init() {}
}
