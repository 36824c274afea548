import CCurl
import Glibc

/// The look-ups of one fetcher's hosts: those in progress, and their recent results. No I/O, no clock.
///
/// A look-up without an answer occupies its thread for many seconds, and cannot be ended. Requests for one host share a
/// look-up; one that has no answer after a second is joined by another, since other name servers may be reachable, and
/// once the first has had none for as long as a request would wait, further requests are refused at once.
/// Bounded: `most` look-ups of a host, and `mostInAll`, each a thread; results of as many hosts.
struct NameLookups {
    /// Most look-ups of one host in progress.
    static let most = 2
    /// Most look-ups of all hosts in progress, and most results that are remembered.
    static let (mostInAll, mostResults) = (64, 1024)
    /// The time after which a request begins a second look-up.
    static let patience = Duration.seconds(1)
    /// The age of an unanswered look-up from which requests are refused.
    static let hopeless = Duration.seconds(5)
    /// The time for which addresses are used, as by libcurl, and a failure is repeated.
    static let (life, failureLife) = (Duration.seconds(60), Duration.seconds(5))

    typealias Result = Swift.Result<[IPAddress], FetchError>

    /// The next step of a request.
    enum Step: Hashable {
        case known(Result)
        /// Wait for the look-up in progress.
        case wait
        /// Begin a look-up, and wait.
        case begin
    }

    private struct Host {
        /// The moments when the look-ups in progress began, the oldest first.
        var begun: [ContinuousClock.Instant] = []
        var result: (value: Result, until: ContinuousClock.Instant)?
    }

    private var hosts: [String: Host] = [:]
    private var inProgress = 0

    /// Decides about a request for a host.
    mutating func ask(_ host: String, now: ContinuousClock.Instant) -> Step {
        var entry = self.hosts[host] ?? Host()
        if let result = entry.result, now < result.until { return .known(result.value) }
        if let oldest = entry.begun.first, let newest = entry.begun.last {
            guard now - oldest < Self.hopeless else { return Self.refused(host, "its name servers do not answer") }
            if now - newest < Self.patience || entry.begun.count >= Self.most { return .wait }
        }
        guard self.inProgress < Self.mostInAll else { return Self.refused(host, "too many look-ups are in progress") }
        entry.begun.append(now)
        self.inProgress += 1
        self.hosts[host] = entry
        return .begin
    }

    /// Notes the end of one look-up of a host.
    mutating func ended(_ host: String, _ result: Result, now: ContinuousClock.Instant) {
        guard var entry = self.hosts[host], !entry.begun.isEmpty else { return }
        entry.begun.removeFirst()
        self.inProgress -= 1
        if case .success = result {
            entry.result = (result, now + Self.life)
        } else if entry.result.map({ $0.until <= now }) ?? true {
            entry.result = (result, now + Self.failureLife)
        }
        self.hosts[host] = entry
        guard self.hosts.count > Self.mostResults else { return }
        self.hosts = self.hosts.filter { !$0.value.begun.isEmpty || $0.key == host }
    }

    private static func refused(_ host: String, _ reason: String) -> Step {
        .known(.failure(FetchError(.connection, "looking up \(host): \(reason)")))
    }
}

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
