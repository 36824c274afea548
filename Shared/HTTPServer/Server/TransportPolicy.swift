import Logging
import NIOCore
import NIOSSL
public import Operations

/// The layer between the network and the endpoints: admission, protocols, time limits.
public struct TransportPolicy: Sendable {
    var limits = ConnectionLimits()
    var proxies = TrustedProxies.none
    /// Nil for plain HTTP/1.1. There is no HTTP/2 without TLS: no client of orders would use it.
    public var certificates: CertificateReload?
    var handshakeLimit = TLSHandshakeHandler.limit
    /// The longest time for a connection to stay without a request, and for a request to arrive.
    var requestLimit = RequestLimits.idle
    /// Those of HTTP/2 that follow neither from `requestLimit` nor from the endpoints.
    var http2 = HTTP2Limits()
    /// The time that a connection may be without a request regardless of other clients.
    var idleGrace = IdleConnections().grace
    var drain = Drain.Limits()
    /// The memory of unfinished requests.
    var bodies: BodyAccount
    let metrics: TransportMetrics

    init(metrics: TransportMetrics) {
        self.metrics = metrics
        self.bodies = BodyAccount(BodyBudget.Limits(), metrics: metrics)
    }

    /// Makes the policy of a role. Connections are limited to those for which the process may have files.
    public init(_ settings: TransportSettings, _ environment: ServiceEnvironment) {
        self.init(metrics: TransportMetrics(factory: environment.metrics))
        let wished = settings.limits.total
        let fitting = OpenFiles.connections(wished: wished, files: OpenFiles.raiseLimit())
        if fitting < wished {
            environment.logger.warning(
                "the limit of open files allows fewer connections than configured",
                metadata: ["connections": "\(fitting)", "configured": "\(wished)"])
        }
        self.limits = ConnectionLimits(total: fitting, perAddress: settings.limits.perAddress)
        let bodies = BodyBudget.Limits(total: ContainerMemory.bodies(limit: ContainerMemory.limit))
        self.bodies = BodyAccount(bodies, metrics: self.metrics)
        self.proxies = settings.proxies
        self.drain.most = settings.drain
        self.certificates = settings.tls.map { files, certificate in
            CertificateReload(
                files: files, certificate: certificate, metrics: self.metrics, logger: environment.logger)
        }
    }

    /// Makes the gate that admits connections.
    func gate() -> ConnectionGate {
        ConnectionGate(
            limits: self.limits, idle: IdleConnections(limit: self.requestLimit, grace: self.idleGrace),
            proxies: self.proxies, metrics: self.metrics)
    }

    /// Sets up the pipeline of an admitted connection; on its loop.
    ///
    /// - Parameter pipelined: those of this loop.
    func setUp(
        _ channel: any Channel, _ slot: ConnectionSlot, _ endpoints: any Responder, _ pipelined: PipelinedRequests
    ) throws {
        let peer = self.proxies.peer(channel.remoteAddress)
        guard let certificate = self.certificates?.certificate else {
            return try self.addHTTP1(channel, slot, endpoints, peer, pipelined)
        }
        // A client that sends close_notify is gone (RFC 9112 §9.8). With half-closed connections NIOSSL would also wait
        // for its whole time limit whenever we close first, though the client has agreed.
        try channel.syncOptions?.setOption(.allowRemoteHalfClosure, value: false)
        let pipeline = channel.pipeline.syncOperations
        try pipeline.addHandler(NIOSSLServerHandler(context: certificate.context))
        let handshake = TLSHandshakeHandler(limit: self.handshakeLimit, metrics: self.metrics) { name, channel in
            // The request may be in flight.
            slot.ended(at: .now())
            guard name == ServerCertificate.http2 else {
                return try self.addHTTP1(channel, slot, endpoints, peer, pipelined)
            }
            var limits = self.http2
            limits.requestLimit = self.requestLimit
            limits.arrivalLimit = min(self.requestLimit, endpoints.reading?.arrivalLimit ?? self.requestLimit)
            if let reading = endpoints.reading { limits.bodies = reading.bodies }
            try HTTP2ConnectionHandler.add(
                to: channel, slot: slot, endpoints: endpoints, peer: peer, bodies: self.bodies, limits: limits)
        }
        try pipeline.addHandler(handshake)
    }

    private func addHTTP1(
        _ channel: any Channel, _ slot: ConnectionSlot, _ endpoints: any Responder, _ peer: Peer,
        _ pipelined: PipelinedRequests
    ) throws {
        try channel.pipeline.syncOperations.addHandler(
            HTTP1ConnectionHandler(
                endpoints: endpoints, slot: slot, peer: peer, bodies: self.bodies, pipelined: pipelined,
                requestLimit: self.requestLimit))
    }
}
