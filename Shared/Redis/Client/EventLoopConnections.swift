import NIOCore

/// One event loop's path to Redis: a link to the server, or links to the masters of a cluster. Runs on that loop.
///
/// Starts as a link if one address is configured; if the server turns out to belong to a cluster, the requests that
/// waited go to the router. A server that belonged to none is asked again with each new connection.
final class EventLoopConnections {
    private enum Way {
        case server(RedisLink)
        case cluster(ClusterRouter)
    }

    private let configuration: RedisConfiguration
    private let eventLoop: any EventLoop
    private let known: KnownServers
    /// Set at the end of `init`.
    private var way: Way?
    /// The identifier of the server on the link; nil if it does not report one.
    private var serverIdentifier: String?
    /// The generation up to which this was compared with the server that the other event loops found.
    private var generation: UInt64 = 0

    init(_ configuration: RedisConfiguration, eventLoop: any EventLoop, known: KnownServers) {
        self.configuration = configuration
        self.eventLoop = eventLoop
        self.known = known
        if configuration.isCluster {
            self.way = .cluster(ClusterRouter(configuration, eventLoop: eventLoop, known: known))
            return
        }
        let target: RedisLink.Target
        if let name = configuration.masterName {
            target = .sentinels(MasterFinder(configuration, masterName: name, eventLoop: eventLoop))
        } else {
            target = .address(configuration.addresses[0])
        }
        let link = RedisLink(configuration, .server, to: target, eventLoop: eventLoop) { [weak self] event in
            self?.handle(event)
        }
        self.way = .server(link)
    }

    /// Accepts a request; see `RedisLink.submit`.
    func submit(_ request: RedisLink.Request) {
        switch self.way {
        case .server(let link):
            self.leaveFormerServer(link)
            link.submit(request)
        case .cluster(let router): router.submit(request)
        case nil: request.fail(RedisError(.closed, "sending a command: the client is closed"))
        }
    }

    /// Makes connections before there is a request.
    func start() {
        switch self.way {
        case .server(let link): link.start()
        case .cluster(let router): router.start()
        case nil: break
        }
    }

    /// Fails the pending requests and closes the connections.
    /// - Returns: completed when the sockets are closed.
    func close() -> EventLoopFuture<Void> {
        switch self.way {
        case .server(let link): link.close() ?? self.eventLoop.makeSucceededVoidFuture()
        case .cluster(let router): router.close()
        case nil: self.eventLoop.makeSucceededVoidFuture()
        }
    }

    /// Leaves a former master, which may live on for a while after a fail-over: once another event loop has found the
    /// new one, nothing more is sent to the former.
    private func leaveFormerServer(_ link: RedisLink) {
        let generation = self.known.generation
        guard generation != self.generation else { return }
        self.generation = generation
        guard link.isReady, let own = self.serverIdentifier, let found = self.known.serverIdentifier, own != found
        else { return }
        link.lost(RedisError(.connection, "using the connection: another server took over"))
    }

    private func handle(_ event: RedisLink.Event) {
        switch event {
        case .prepared(_, let findings, let isFirst):
            self.serverIdentifier = findings.serverIdentifier
            self.known.connected(findings.serverIdentifier, isFirst: isFirst)
        case .lost: break
        case .outOfMemory: self.known.refusedForMemory()
        case .foundCluster(let map, let requests):
            let router = ClusterRouter(self.configuration, eventLoop: self.eventLoop, known: self.known)
            self.way = .cluster(router)
            if !map.masters.isEmpty { router.adopt(map) }
            router.start()
            for request in requests { router.submit(request) }
        }
    }
}
