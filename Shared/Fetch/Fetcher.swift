// Owner: the fetcher's thread owns the multi handle and each transfer owns its easy handle; a fetcher owns the thread.
// Threads: any may call; everything that libcurl does runs on the one thread. Each look-up of a name has its own.
// Bounds: requests in progress and waiting, look-ups, bytes of headers and content, redirects, and all time.
import CCurl
import Glibc

/// Fetches from https servers that were not chosen by us, and cannot be redirected to places that are not allowed.
///
/// Only https unless the operator chose the server, certificates always checked, no proxy from the environment, no
/// cookies, no authentication, nothing decompressed. Each request goes to an address that its policy allows, judged
/// when the connection is made and before a request on one that was kept. Redirects are followed one by one, each
/// checked like a new request.
public final class Fetcher: Sendable {
    private let queue: FetchQueue

    /// Starts the thread.
    /// - Throws: `FetchError` with code `.library` if libcurl or the system refuses.
    public init(_ configuration: FetcherConfiguration = FetcherConfiguration()) throws(FetchError) {
        guard Self.initialized == CURLE_OK else {
            throw FetchError(.library, "starting libcurl: code \(Self.initialized.rawValue)")
        }
        let queue = try FetchQueue(limit: configuration.queueLimit)
        try FetchThread.start { FetchLoop(queue, configuration).run() }
        self.queue = queue
    }

    deinit { self.queue.close() }

    /// Fetches once; the only retries are with the other addresses of a name.
    ///
    /// Cancelling the task ends the transfer.
    public func fetch(_ request: FetchRequest) async throws(FetchError) -> FetchResponse {
        let url = try FetchStep.admitted(try request.parsedURL(), request)
        let ticket = self.queue.ticket()
        return try await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                self.queue.submit(
                    FetchJob(
                        ticket: ticket, request: request, url: url, deadline: .now + request.timeout,
                        continuation: continuation))
            }
        } onCancel: {
            self.queue.cancel(ticket)
        }.get()
    }

    /// Calls a service: an answer of any status is its content.
    public func exchange(_ request: FetchRequest) async throws(FetchError) -> FetchedContent {
        var request = request
        request.takesAnyStatus = true
        switch try await self.fetch(request) {
        case .content(let content): return content
        case .notModified: throw FetchError(.malformed, "fetching: an answer without content")
        }
    }

    /// Makes the connection of a request with all checks of name, address and certificate, and sends nothing.
    public func connect(_ request: FetchRequest) async throws(FetchError) {
        var request = request
        request.isConnectionOnly = true
        _ = try await self.exchange(request)
    }

    /// Calls `body` once no request is accepted any more: after `close`, or if libcurl failed for good.
    public func whenEnded(_ body: @escaping @Sendable () -> Void) { self.queue.whenEnded(body) }

    /// Fails requests in progress with `.closed` and waits until the thread has ended.
    public func close() async { await self.queue.closeAndWait() }

    /// The result of starting libcurl, once as any static; it is never cleaned up, since other code may use it too.
    private static let initialized: CURLcode = curl_global_init(Int(CURL_GLOBAL_ALL))
}

/// The limits and network settings of a fetcher.
public struct FetcherConfiguration: Sendable {
    /// The addresses that may be connected to.
    public var addresses = AddressPolicy.publicOnly
    /// The roots in PEM for servers' certificates; nil means the system's.
    public var rootsPEM: [UInt8]?
    /// The most requests in progress at once.
    public var concurrency = 8
    /// The most requests that wait for a place.
    public var queueLimit = 256
    /// Names that are not looked up but have these addresses: the DNS of a test.
    ///
    /// The policy judges these addresses like any other.
    public var pinned: [Pin] = []
    /// Hosts whose connections go elsewhere, though certificates must still be theirs: `host:port:address:port` each.
    /// For tests and development.
    public var detours: [String] = []

    /// Looks up a host; may block for long.
    var lookUp: @Sendable (_ host: String) -> NameLookups.Result = systemLookup

    public init() {}

    /// False for an address, and for a host that is pinned or has a detour.
    func isLookedUp(_ origin: FetchOrigin) -> Bool {
        !(IPAddress(origin.host) != nil || origin.host.hasPrefix("[")
            || self.pinned.contains { $0.host == origin.host && $0.port == origin.port }
            || self.detours.contains { $0.hasPrefix("\(origin.host):\(origin.port):") })
    }

    /// One name with its address.
    public struct Pin: Hashable, Sendable {
        public let host: String
        public let port: Int
        public let address: IPAddress

        public init(host: String, port: Int, address: IPAddress) {
            self.host = host
            self.port = port
            self.address = address
        }
    }
}

/// One request with the continuation of its caller.
struct FetchJob: Sendable {
    let ticket: UInt64
    var request: FetchRequest
    /// The URL to request next, allowed by the request.
    var url: FetchURL
    /// The number of redirects that led there.
    var redirects = 0
    /// The time by which it must be finished.
    let deadline: ContinuousClock.Instant
    /// Resumed exactly once: by the code that removes the job from the queue or from the loop for good.
    let continuation: CheckedContinuation<Result<FetchResponse, FetchError>, Never>
}

/// Returns the version of libcurl that this process runs with.
public func curlVersion() -> String {
    // The answer is static memory, never NULL, and has the version since the first of its layouts.
    unsafe String(cString: curl_version_info(CURLVERSION_FIRST).pointee.version)
}
