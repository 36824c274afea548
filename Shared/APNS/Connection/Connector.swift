import NIOCore
import NIOPosix
import NIOSSL

/// Makes the channel under a connection: addresses, TCP, perhaps a proxy, TLS.
///
/// Lives on the client's event loop. The connection keeps the time: when it has given up, what comes later is closed.
final class Connector {
    private let endpoint: APNSEndpoint
    private let proxy: APNSProxy?
    private let configuration: APNSConfiguration
    private let tls: NIOSSLContext
    private let eventLoop: any EventLoop
    private var book: AddressBook
    /// Look-ups that have not come back; a resolver that hangs must not collect threads.
    private var lookups = 0
    private static let mostLookups = 2
    /// How many addresses one attempt tries.
    private static let mostAddresses = 3

    init(
        endpoint: APNSEndpoint, proxy: APNSProxy?, configuration: APNSConfiguration, tls: NIOSSLContext,
        eventLoop: any EventLoop
    ) {
        self.endpoint = endpoint
        self.proxy = proxy
        self.configuration = configuration
        self.tls = tls
        self.eventLoop = eventLoop
        self.book = AddressBook(memory: configuration.addressMemory)
    }

    /// An address whose connections do not work comes last for a while.
    func failed(_ address: SocketAddress?, now: NIODeadline) {
        if let address { self.book.failed(address, now: now) }
    }

    func worked(_ address: SocketAddress?) { if let address { self.book.worked(address) } }

    /// Asks for the name anew (Wallet Orders §4.5), then tries its addresses until one takes the connection.
    ///
    /// - Parameter inUse: how many connections each address has, when asked.
    func connect(_ connection: PushConnectionHandler, inUse: @escaping () -> [SocketAddress: Int]) {
        let host = self.proxy?.host ?? self.endpoint.host
        let port = self.proxy?.port ?? self.endpoint.port
        guard self.lookups < Self.mostLookups else {
            return self.fail(connection, "resolving \(host): earlier look-ups have not come back")
        }
        self.lookups += 1
        let resolve = self.configuration.resolve
        NIOThreadPool.singleton.runIfActive(eventLoop: self.eventLoop) { try resolve(host, port) }
            .assumeIsolated()
            .whenComplete { result in
                self.lookups -= 1
                switch result {
                case .failure(let error): self.fail(connection, "\(error)")
                case .success(let addresses):
                    let order = self.book.order(addresses, inUse: inUse(), now: .now())
                    self.connect(connection, to: order.prefix(Self.mostAddresses), lastError: "no address")
                }
            }
    }

    private func connect(
        _ connection: PushConnectionHandler, to addresses: ArraySlice<SocketAddress>, lastError: String
    ) {
        guard connection.isWanted else { return }
        var rest = addresses
        guard let address = rest.popFirst() else { return self.fail(connection, lastError) }
        connection.address = address
        // A silent address must leave time for the others.
        let share = self.configuration.connectTimeout.nanoseconds / Int64(1 + min(rest.count, 2))
        ClientBootstrap(group: self.eventLoop)
            .connectTimeout(.nanoseconds(share))
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .channelOption(.socketOption(.so_keepalive), value: 1)
            .connect(to: address)
            .assumeIsolated()
            .whenComplete { result in
                switch result {
                case .success(let channel):
                    self.boundUnacknowledged(channel)
                    self.prepare(channel, connection)
                case .failure(let error):
                    self.book.failed(address, now: .now())
                    self.connect(connection, to: rest, lastError: "\(error)")
                }
            }
    }

    /// Lets the kernel end a connection whose bytes nobody acknowledges, soon after a PING would have: then the socket
    /// goes, too, and what waits in it. A kernel that does not know the option is no reason not to connect.
    ///
    /// Source: tcp(7), TCP_USER_TIMEOUT, number 18 in linux/tcp.h, in milliseconds
    private func boundUnacknowledged(_ channel: any Channel) {
        #if os(Linux)
            let wished = 2 * self.configuration.pingInterval.nanoseconds / 1_000_000
            let most = Int(max(1_000, min(wished, 600_000)))
            channel.setOption(.tcpOption(.init(rawValue: 18)), value: .init(most))
                .assumeIsolated()
                .whenComplete { _ in }
        #endif
    }

    private func prepare(_ channel: any Channel, _ connection: PushConnectionHandler) {
        guard connection.isWanted else { return channel.close(promise: nil) }
        connection.channel = channel
        guard let proxy = self.proxy else { return self.addTLS(to: channel, connection) }
        let handler = ProxyHandler(proxy: proxy, endpoint: self.endpoint) { result in
            switch result {
            case .success(let channel): self.addTLS(to: channel, connection)
            case .failure(let error): connection.fail(error)
            }
        }
        self.add([handler], to: channel, connection)
    }

    private func addTLS(to channel: any Channel, _ connection: PushConnectionHandler) {
        guard connection.isWanted else { return channel.close(promise: nil) }
        // An address cannot stand in SNI; the certificate is then checked against the address itself.
        let isAddress = (try? SocketAddress(ipAddress: self.endpoint.host, port: 0)) != nil
        do {
            let transport = try NIOSSLClientHandler(
                context: self.tls, serverHostname: isAddress ? nil : self.endpoint.host)
            self.add([transport, connection], to: channel, connection)
        } catch {
            self.fail(connection, "\(error)")
        }
    }

    private func add(_ handlers: [any ChannelHandler], to channel: any Channel, _ connection: PushConnectionHandler) {
        do {
            try channel.pipeline.syncOperations.addHandlers(handlers)
            // The channel may be closed already and then never says so to handlers added now.
            guard channel.isActive else { throw ChannelError.eof }
        } catch {
            self.fail(connection, "\(error)")
        }
    }

    private func fail(_ connection: PushConnectionHandler, _ reason: String) {
        let way = self.proxy.map { " through proxy \($0)" } ?? ""
        connection.fail(APNSError(.connecting, "connecting to \(self.endpoint)\(way): \(reason)"))
    }
}
