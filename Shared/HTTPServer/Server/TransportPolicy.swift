import NIOCore
import NIOSSL

/// The layer between the network and the endpoints: admission, protocols, time limits.
struct TransportPolicy: Sendable {
    var limits = ConnectionLimits()
    var proxies = TrustedProxies.none
    /// Nil for plain HTTP/1.1. There is no HTTP/2 without TLS: no client of orders would use it.
    var certificates: CertificateReload?
    var handshakeLimit = TLSHandshakeHandler.limit
    /// The longest time for a connection to stay without a complete request.
    var requestLimit = RequestLimits.idle
    /// The time that a connection may be without a request regardless of other clients.
    var idleGrace = IdleConnections().grace
    var drain = Drain.Limits()
    let metrics: TransportMetrics

    init(metrics: TransportMetrics) { self.metrics = metrics }

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
            var limits = HTTP2Limits()
            limits.requestLimit = self.requestLimit
            limits.arrivalLimit = min(self.requestLimit, endpoints.reading?.arrivalLimit ?? self.requestLimit)
            if let reading = endpoints.reading { limits.bodies = reading.bodies }
            try HTTP2ConnectionHandler.add(to: channel, slot: slot, endpoints: endpoints, peer: peer, limits: limits)
        }
        try pipeline.addHandler(handshake)
    }

    private func addHTTP1(
        _ channel: any Channel, _ slot: ConnectionSlot, _ endpoints: any Responder, _ peer: Peer,
        _ pipelined: PipelinedRequests
    ) throws {
        try channel.pipeline.syncOperations.addHandler(
            HTTP1ConnectionHandler(
                endpoints: endpoints, slot: slot, peer: peer, pipelined: pipelined, requestLimit: self.requestLimit))
    }
}
