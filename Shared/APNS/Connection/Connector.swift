import Cryptography
import NIOCore
import NIOPosix
import NIOSSL

/// Establishes the channel of a connection: addresses, TCP, a proxy if there is one, TLS.
///
/// Lives on the client's event loop. The connection enforces the deadline: a channel that is ready only after the
/// attempt has ended is closed.
final class Connector {
    private let endpoint: APNSEndpoint
    private let proxy: APNSProxy?
    private let configuration: APNSConfiguration
    private let tls: NIOSSLContext
    private let eventLoop: any EventLoop
    private var book: AddressSelector
    /// The number of look-ups that have not returned; requests to a resolver that hangs must not accumulate.
    private var lookups = 0
    private static let mostLookups = 2
    /// The maximum number of addresses that one attempt tries.
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
        self.book = AddressSelector(memory: configuration.addressMemory)
    }

    /// Notes that a connection to the address did not work: the address is tried last for a while.
    func failed(_ address: SocketAddress?, now: NIODeadline) {
        if let address { self.book.failed(address, now: now) }
    }

    func worked(_ address: SocketAddress?) { if let address { self.book.worked(address) } }

    /// Resolves the name again (Wallet Orders §4.5), then tries its addresses until one accepts the connection.
    ///
    /// - Parameter inUse: returns the number of connections that each address has.
    func connect(_ connection: PushConnectionHandler, inUse: @escaping () -> [SocketAddress: Int]) {
        let host = self.proxy?.host ?? self.endpoint.host
        let port = self.proxy?.port ?? self.endpoint.port
        guard self.lookups < Self.mostLookups else {
            return self.fail(connection, "resolving \(host): earlier look-ups have not come back")
        }
        self.lookups += 1
        self.configuration.resolver.addresses(of: host, port: port, on: self.eventLoop)
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
                    self.boundSilence(channel)
                    self.prepare(channel, connection)
                case .failure(let error):
                    self.book.failed(address, now: .now())
                    self.connect(connection, to: rest, lastError: "\(error)")
                }
            }
    }

    /// Lets the kernel end a connection whose bytes are not acknowledged, about when an unanswered PING ends it: the
    /// kernel also closes the socket and discards its unsent bytes. An idle connection gets a keepalive probe each
    /// minute, which also keeps it known to middleboxes; unanswered probes end it after TCP_USER_TIMEOUT, or after
    /// three if the kernel does not have that option. An option that the kernel does not know is ignored.
    ///
    /// Source: tcp(7), numbers of linux/tcp.h: TCP_USER_TIMEOUT in milliseconds, TCP_KEEPIDLE and TCP_KEEPINTVL in
    /// seconds, TCP_KEEPCNT
    private func boundSilence(_ channel: any Channel) {
        #if os(Linux)
            let wished = 2 * self.configuration.pingInterval.nanoseconds / 1_000_000
            let most = Int(max(1_000, min(wished, 600_000)))
            for (option, value) in [(18, most), (4, 60), (5, 10), (6, 3)] {
                channel.setOption(.tcpOption(.init(rawValue: CInt(option))), value: .init(value))
                    .assumeIsolated()
                    .whenComplete { _ in }
            }
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
        do {
            self.add([try self.makeTransport(), connection], to: channel, connection)
        } catch {
            self.fail(connection, "\(error)")
        }
    }

    /// Returns a TLS handler that verifies the certificate against the host's name, or against the address if the host
    /// is an address, which SNI cannot carry.
    private func makeTransport() throws -> NIOSSLClientHandler {
        if self.endpoint.isAddress { return try NIOSSLClientHandler(context: self.tls, serverHostname: nil) }
        let host = self.endpoint.host
        return try NIOSSLClientHandler._makeSSLClientHandler(context: self.tls, serverHostname: host) {
            certificate, channel in
            // NIOSSL also accepts a certificate for the peer's address, and any server that a name resolves to may have
            // one.
            let names = certificate._subjectAlternativeNames()
            if names.isEmpty || names.contains(where: { $0.nameType == .dnsName && isHost(host, named: $0.contents) }) {
                return channel.eventLoop.makeSucceededVoidFuture()
            }
            let error = APNSError(.tls, "shaking hands: the server's certificate is not for \(host)")
            return channel.eventLoop.makeFailedFuture(error)
        }
    }

    private func add(_ handlers: [any ChannelHandler], to channel: any Channel, _ connection: PushConnectionHandler) {
        do {
            try channel.pipeline.syncOperations.addHandlers(handlers)
            // The channel may be closed already; handlers added afterwards get no notification of that.
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
