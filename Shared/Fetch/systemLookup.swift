import Glibc

/// Looks up a host with the system's resolver. Blocks, for many seconds if no name server answers.
///
/// - Returns: the first 16 addresses, in the order in which they should be tried.
func systemLookup(_ host: String) -> NameLookups.Result {
    var hints = unsafe addrinfo()
    unsafe hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    unsafe hints.ai_protocol = Int32(IPPROTO_TCP)
    var list: UnsafeMutablePointer<addrinfo>?
    let code = unsafe getaddrinfo(host, nil, &hints, &list)
    guard code == 0 else {
        let reason = unsafe String(cString: gai_strerror(code))
        return .failure(FetchError(.connection, "looking up \(host): \(reason)"))
    }
    defer { unsafe freeaddrinfo(list) }

    var addresses: [IPAddress] = []
    var next = unsafe list
    while let entry = unsafe next, addresses.count < 16 {
        let raw = unsafe UnsafeRawBufferPointer(start: entry.pointee.ai_addr, count: Int(entry.pointee.ai_addrlen))
        if let address = unsafe IPAddress(family: entry.pointee.ai_family, raw) { addresses.append(address) }
        unsafe next = entry.pointee.ai_next
    }
    guard !addresses.isEmpty else { return .failure(FetchError(.connection, "looking up \(host): no address")) }
    return .success(addresses)
}
