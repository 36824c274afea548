import Glibc
import NIOCore

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
