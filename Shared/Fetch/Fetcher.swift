// Owner: the fetcher's thread owns the multi handle and each transfer owns its easy handle; a fetcher owns the thread.
// Threads: any may call; everything that libcurl does runs on the one thread. Each look-up of a name has its own.
// Bounds: requests in progress and waiting, look-ups, bytes of headers and content, redirects, and all time.
import CCurl
import Glibc

/// Fetches from https servers that were not chosen by us, and cannot be redirected to places that are not allowed.
///
/// Only https, certificates always checked, no proxy from the environment, no cookies, no authentication, nothing
/// decompressed. Each connection goes to an address that the policy allows, judged when the connection is made.
/// Redirects are followed one by one, each checked like a new request.
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
        let url = try FetchStep.admitted(try FetchURL(request.url), request)
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

    /// Calls `body` once no request is accepted any more: after `close`, or if libcurl failed for good.
    public func whenEnded(_ body: @escaping @Sendable () -> Void) { self.queue.whenEnded(body) }

    /// Fails requests in progress with `.closed` and waits until the thread has ended.
    public func close() async { await self.queue.closeAndWait() }

    /// The result of starting libcurl, once as any static; it is never cleaned up, since other code may use it too.
    private static let initialized: CURLcode = curl_global_init(Int(CURL_GLOBAL_ALL))
}
