import Glibc
import NIOCore
import NIOPosix
import Synchronization

/// Resolves host names for the clients of all credentials. Clients that ask for one name at the same time share a
/// look-up. Nothing is cached.
///
/// A look-up that gets no answer occupies its thread for many seconds. If each of fifty clients had its own, the
/// look-ups would wait for each other, and so would everything else that needs a thread that may block.
/// Owner: `APNSConfiguration`. Thread: any; look-ups run on `threads`, which only they use. Bounded: `most` concurrent
/// look-ups of a name; the clients bound the number of waiting requests.
final class HostResolver: Sendable {
    /// The system's resolver.
    static let system = HostResolver { host, port throws(APNSError) in try resolveHost(host, port: port) }

    /// The maximum number of concurrent look-ups of one name.
    static let most = 2

    private static let threads: NIOThreadPool = {
        let threads = NIOThreadPool(numberOfThreads: 2 * HostResolver.most)
        threads.start()
        return threads
    }()

    private struct Name: Hashable {
        let host: String
        let port: Int
    }

    private struct Lookup {
        let number: Int
        let began: NIODeadline
        var waiting: [EventLoopPromise<[SocketAddress]>]
    }

    private struct State {
        var lookups: [Name: [Lookup]] = [:]
        var lastNumber = 0
    }

    private let state = Mutex(State())
    private let patience: TimeAmount
    private let resolve: @Sendable (_ host: String, _ port: Int) throws(APNSError) -> [SocketAddress]

    /// - Parameters:
    ///   - patience: the time after which a request no longer joins an unanswered look-up but begins a second one: name
    ///     servers that did not answer the first may be reachable again.
    ///   - resolve: called on a thread that may block.
    init(
        patience: TimeAmount = .seconds(1),
        _ resolve: @escaping @Sendable (_ host: String, _ port: Int) throws(APNSError) -> [SocketAddress]
    ) {
        self.patience = patience
        self.resolve = resolve
    }

    /// Looks up a host's addresses, or joins a look-up in progress.
    ///
    /// - Returns: the addresses, on the event loop; fails with `APNSError`.
    func addresses(
        of host: String, port: Int, on eventLoop: any EventLoop, now: NIODeadline = .now()
    ) -> EventLoopFuture<[SocketAddress]> {
        let name = Name(host: host, port: port)
        let promise = eventLoop.makePromise(of: [SocketAddress].self)
        let begun = self.state.withLock { state -> Int? in
            let last = state.lookups[name, default: []].indices.last
            if let last, let lookup = state.lookups[name]?[last],
                now - lookup.began < self.patience || last + 1 == Self.most
            {
                state.lookups[name]?[last].waiting.append(promise)
                return nil
            }
            state.lastNumber += 1
            state.lookups[name, default: []].append(Lookup(number: state.lastNumber, began: now, waiting: [promise]))
            return state.lastNumber
        }
        if let begun { Self.threads.submit { _ in self.look(up: name, begun) } }
        return promise.futureResult
    }

    private func look(up name: Name, _ number: Int) {
        let result = Result { () throws(APNSError) in try self.resolve(name.host, name.port) }
        let waiting = self.state.withLock { state -> [EventLoopPromise<[SocketAddress]>] in
            guard let index = state.lookups[name]?.firstIndex(where: { $0.number == number }) else { return [] }
            let waiting = state.lookups[name]?.remove(at: index).waiting ?? []
            if state.lookups[name]?.isEmpty == true { state.lookups[name] = nil }
            return waiting
        }
        for promise in waiting { promise.completeWith(result.mapError { $0 as any Error }) }
    }
}

/// Returns a host's addresses from the system's resolver, in the order of RFC 6724. Nothing is cached.
///
/// Owner: this call owns the list and frees it. Thread: any that may block while the system's resolver works.
/// Bounded: 64 addresses.
/// Source: getaddrinfo(3)
/// - Throws: `APNSError` with code `.connecting`.
func resolveHost(_ host: String, port: Int) throws(APNSError) -> [SocketAddress] {
    var hints = unsafe addrinfo()
    unsafe hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    unsafe hints.ai_protocol = Int32(IPPROTO_TCP)
    var list: UnsafeMutablePointer<addrinfo>?
    let code = unsafe getaddrinfo(host, String(port), &hints, &list)
    guard code == 0 else {
        let reason = unsafe String(cString: gai_strerror(code))
        throw APNSError(.connecting, "resolving \(host): \(reason)")
    }
    defer { unsafe freeaddrinfo(list) }

    var addresses: [SocketAddress] = []
    var next = unsafe list
    while let entry = unsafe next, addresses.count < AddressSelector.most {
        if let address = unsafe socketAddress(entry.pointee, host: host) { addresses.append(address) }
        unsafe next = entry.pointee.ai_next
    }
    guard !addresses.isEmpty else { throw APNSError(.connecting, "resolving \(host): no address") }
    return addresses
}

/// - Returns: nil for a family that is neither IPv4 nor IPv6.
private func socketAddress(_ entry: addrinfo, host: String) -> SocketAddress? {
    guard let raw = unsafe UnsafeRawPointer(entry.ai_addr) else { return nil }
    let length = unsafe Int(entry.ai_addrlen)
    switch unsafe entry.ai_family {
    case AF_INET where length >= MemoryLayout<sockaddr_in>.size:
        return SocketAddress(unsafe raw.loadUnaligned(as: sockaddr_in.self), host: host)
    case AF_INET6 where length >= MemoryLayout<sockaddr_in6>.size:
        return SocketAddress(unsafe raw.loadUnaligned(as: sockaddr_in6.self), host: host)
    default:
        return nil
    }
}
