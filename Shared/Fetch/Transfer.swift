import CCurl
import Glibc

/// One hop of a job on its easy handle. Lives on the fetcher's thread only.
final class Transfer {
    let job: FetchJob
    private(set) var easy: EasyHandle
    private let sink: TransferSink

    /// - Parameters:
    ///   - addresses: those of the host that were looked up; empty if it needs no look-up.
    ///   - connected: the time by which the connection must be made.
    /// - Throws: `FetchError` with code `.library`.
    init(
        _ job: FetchJob, _ configuration: FetcherConfiguration, addresses: [IPAddress],
        connected: ContinuousClock.Instant, now: ContinuousClock.Instant
    ) throws(FetchError) {
        self.job = job
        self.sink = TransferSink(
            addresses: job.request.addresses ?? configuration.addresses, sizeLimit: job.request.sizeLimit)
        self.easy = try EasyHandle(self.sink)
        try self.easy.setCallbacks()
        try self.setRequest(configuration, remaining: now.duration(to: job.deadline))
        // At least a millisecond: 0 would mean no limit.
        let patience = Self.milliseconds(now.duration(to: connected))
        try self.easy.set(CURLOPT_CONNECTTIMEOUT_MS, max(1, patience))
        var pins = configuration.pinned.map { "\($0.host):\($0.port):\($0.address.pinned)" }
        if !addresses.isEmpty {
            let list = addresses.map(\.pinned).joined(separator: ",")
            pins.append("\(job.url.origin.host):\(job.url.origin.port):\(list)")
        }
        try self.easy.setPins(pins)
    }

    private func setRequest(_ configuration: FetcherConfiguration, remaining: Duration) throws(FetchError) {
        let request = self.job.request
        try self.easy.set(CURLOPT_URL, self.job.url.text)
        try self.easy.setProtocol(isPlain: self.job.url.isPlain)
        try self.easy.set(CURLOPT_FOLLOWLOCATION, 0)
        // An empty proxy means none, even if the environment names one: with a proxy no address could be judged.
        try self.easy.set(CURLOPT_PROXY, "")
        try self.easy.set(CURLOPT_NETRC, 0)
        try self.easy.set(CURLOPT_NOSIGNAL, 1)
        try self.easy.set(CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2)
        try self.easy.set(CURLOPT_SSL_VERIFYPEER, 1)
        try self.easy.set(CURLOPT_SSL_VERIFYHOST, 2)
        if let roots = request.rootsPEM ?? configuration.rootsPEM {
            try self.easy.set(CURLOPT_CAINFO_BLOB, copying: roots)
            try self.easy.set(CURLOPT_CAPATH, nil)
        } else if EasyHandle.hasRootsFile {
            // libcurl keeps the parsed roots only if they come from one file, and otherwise parses them for each
            // connection. Source: libcurl 7.87, `Curl_ssl_setup_x509_store`
            try self.easy.set(CURLOPT_CAPATH, nil)
        }
        try self.easy.set(CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_1_1))
        try self.easy.set(CURLOPT_HTTP_CONTENT_DECODING, 0)
        try self.easy.set(CURLOPT_USERAGENT, "Waybill")
        // At least a millisecond: 0 would mean no limit.
        try self.easy.set(CURLOPT_TIMEOUT_MS, max(1, Self.milliseconds(remaining)))
        try self.easy.set(CURLOPT_MAXFILESIZE_LARGE, offset: Int64(request.sizeLimit))
        var lines = ["Accept: \(request.accept)"]
        try self.setCall(request, &lines)
        // A value that cannot be in a header line is left out: the full content is then sent.
        if let tag = request.entityTag, ResponseHeaders.isEntityTag(tag) { lines.append("If-None-Match: \(tag)") }
        if let date = request.lastModified, ResponseHeaders.mayBeSentBack(date) {
            lines.append("If-Modified-Since: \(date)")
        }
        try self.easy.setHeaders(lines)
        if !configuration.detours.isEmpty { try self.easy.setDetours(configuration.detours) }
    }

    /// Sets the parts of a request beyond a plain GET.
    private func setCall(_ request: FetchRequest, _ lines: inout [String]) throws(FetchError) {
        var headers = request.headers
        if let (origin, value) = request.authorization, self.job.redirects == 0, self.job.url.origin == origin {
            headers.append(("Authorization", value))
        }
        for (name, value) in headers {
            guard value.utf8.count <= 4096, value.utf8.allSatisfy({ (0x20...0x7E).contains($0) }) else {
                throw FetchError(.malformed, "fetching: the header \(name) has characters that cannot be sent")
            }
            lines.append("\(name): \(value)")
        }
        if let (bytes, contentType) = request.body {
            try self.easy.setBody(bytes)
            // The empty `Expect` avoids waiting for the server's consent before the body is sent.
            lines += ["Content-Type: \(contentType)", "Expect:"]
        }
        if let identity = request.identity {
            try self.easy.set(CURLOPT_SSLCERT_BLOB, copying: identity.certificatePEM)
            try self.easy.set(CURLOPT_SSLKEY_BLOB, copying: identity.keyPEM)
        }
        // Source: CURLOPT_CONNECT_ONLY(3)
        if request.isConnectionOnly { try self.easy.set(CURLOPT_CONNECT_ONLY, 1) }
        if request.isAlone {
            try self.easy.set(CURLOPT_FRESH_CONNECT, 1)
            try self.easy.set(CURLOPT_FORBID_REUSE, 1)
        }
    }

    private static func milliseconds(_ duration: Duration) -> Int {
        let limited = min(max(duration, .zero), .seconds(3600))
        return Int(limited / .milliseconds(1))
    }

    /// Returns the step that follows the hop.
    func step(after code: CURLcode) -> FetchStep {
        guard code == CURLE_OK else {
            if self.sink.refusedAddress, !self.sink.openedSocket, !self.job.request.isAlone,
                code == CURLE_ABORTED_BY_CALLBACK
            {
                return .reconnect
            }
            var error = self.error(code)
            error.mayHaveBeenSent = self.easy.mayHaveSent
            return .failed(error)
        }
        return FetchStep.after(
            status: self.easy.status, headers: self.sink.headers, body: self.sink.body, url: self.job.url,
            redirects: self.job.redirects, request: self.job.request,
            retryAfterSeconds: self.easy.retryAfterSeconds)
    }

    private func error(_ code: CURLcode) -> FetchError {
        let host = self.job.url.origin.host
        if self.sink.isTooLarge || code == CURLE_FILESIZE_EXCEEDED {
            return FetchError(.tooLarge, "fetching from \(host): more than \(self.job.request.sizeLimit) bytes")
        }
        // Another address of the same name may have been tried and failed for another reason.
        if self.sink.refusedAddress, !self.sink.openedSocket {
            return FetchError(.addressNotAllowed, "fetching from \(host): its address is not a public one")
        }
        let text = unsafe String(cString: curl_easy_strerror(code))
        let kind: FetchError.Code =
            switch code {
            case CURLE_OPERATION_TIMEDOUT: .timeout
            case CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_CONNECT, CURLE_SEND_ERROR, CURLE_RECV_ERROR,
                CURLE_GOT_NOTHING, CURLE_PARTIAL_FILE:
                .connection
            case CURLE_SSL_CONNECT_ERROR, CURLE_SSL_CERTPROBLEM, CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CIPHER,
                CURLE_SSL_ISSUER_ERROR,
                CURLE_SSL_CACERT_BADFILE:
                .tls
            case CURLE_URL_MALFORMAT, CURLE_UNSUPPORTED_PROTOCOL: .url
            case CURLE_WEIRD_SERVER_REPLY, CURLE_WRITE_ERROR, CURLE_HTTP2,
                CURLE_BAD_CONTENT_ENCODING:
                .malformed
            default: .library
            }
        return FetchError(kind, "fetching from \(host): \(text)")
    }
}

/// The target of libcurl's callbacks of one transfer. Lives on the fetcher's thread only.
@safe
final class TransferSink {
    private(set) var headers = ResponseHeaders()
    private(set) var body: [UInt8] = []
    private(set) var isTooLarge = false
    /// True if a connection to an address, new or kept, was refused.
    private(set) var refusedAddress = false
    /// True if a connection to an address was allowed.
    private(set) var openedSocket = false
    private let addresses: AddressPolicy
    private let sizeLimit: Int

    init(addresses: AddressPolicy, sizeLimit: Int) {
        self.addresses = addresses
        self.sizeLimit = sizeLimit
    }

    /// Appends content within the limit; returning a count smaller than given ends the transfer. Source:
    /// CURLOPT_WRITEFUNCTION(3)
    static let receiveBody: curl_write_callback = { data, size, count, context in
        guard let context = unsafe context, let data = unsafe data else { return 0 }
        let sink = unsafe Unmanaged<TransferSink>.fromOpaque(context).takeUnretainedValue()
        // libcurl passes at most a few hundred kilobytes at once.
        let length = size * count
        guard length <= sink.sizeLimit - sink.body.count else {
            sink.isTooLarge = true
            return 0
        }
        unsafe sink.body.append(contentsOf: UnsafeRawBufferPointer(start: data, count: length))
        return length
    }

    static let receiveHeader: curl_write_callback = { data, size, count, context in
        guard let context = unsafe context, let data = unsafe data else { return 0 }
        let sink = unsafe Unmanaged<TransferSink>.fromOpaque(context).takeUnretainedValue()
        let line = unsafe Array(UnsafeRawBufferPointer(start: data, count: size * count))
        return sink.headers.receive(line) ? size * count : 0
    }

    /// Refuses a request on a connection that another one has made to an address that is not allowed for this one.
    ///
    /// Source: CURLOPT_PREREQFUNCTION(3)
    static let beforeRequest: curl_prereq_callback = { context, address, _, _, _ in
        guard let context = unsafe context, let address = unsafe address else { return CURL_PREREQFUNC_ABORT }
        let sink = unsafe Unmanaged<TransferSink>.fromOpaque(context).takeUnretainedValue()
        guard let target = unsafe IPAddress(String(cString: address)), sink.addresses.allows(target) else {
            sink.refusedAddress = true
            return CURL_PREREQFUNC_ABORT
        }
        return CURL_PREREQFUNC_OK
    }

    /// Makes the socket only if connections to its address are allowed: nothing can change between this check and the
    /// connection. Source: CURLOPT_OPENSOCKETFUNCTION(3)
    static let openSocket: curl_opensocket_callback = { context, purpose, address in
        guard let context = unsafe context, let address = unsafe address else { return CURL_SOCKET_BAD }
        let sink = unsafe Unmanaged<TransferSink>.fromOpaque(context).takeUnretainedValue()
        guard purpose == CURLSOCKTYPE_IPCXN, let target = unsafe IPAddress(address),
            sink.addresses.allows(target)
        else {
            sink.refusedAddress = true
            return CURL_SOCKET_BAD
        }
        sink.openedSocket = true
        let type = unsafe address.pointee.socktype | Int32(SOCK_CLOEXEC.rawValue)
        return unsafe socket(address.pointee.family, type, address.pointee.protocol)
    }
}
