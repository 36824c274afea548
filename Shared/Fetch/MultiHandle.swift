import CCurl
import Glibc

/// The sole owner of one `CURLM *` and of the sockets that it waits for, on the fetcher's thread only.
///
/// A turn costs what happens in it, however many transfers wait. Source: libcurl-multi(3), "MULTI_SOCKET"
@safe
struct MultiHandle: ~Copyable {
    private let raw: UnsafeMutableRawPointer
    /// +1 on the object that the callbacks write to, released when no callback can run any more.
    private let sockets: Unmanaged<SocketSet>

    /// - Parameters:
    ///   - connections: the most connections kept open at once.
    ///   - descriptor: ends a wait when it is readable.
    init(connections: Int, descriptor: Int32) throws(FetchError) {
        let sockets = try SocketSet(descriptor)
        guard let raw = unsafe curl_multi_init() else { throw FetchError(.library, "making a multi handle: refused") }
        unsafe self.raw = raw
        unsafe self.sockets = Unmanaged.passRetained(sockets)
        _ = unsafe ccurl_multi_set_long(raw, CURLMOPT_MAXCONNECTS, connections)
        // Fails only for options that libcurl does not know, and it has had these since 7.16.0.
        _ = unsafe ccurl_multi_set_callbacks(raw, SocketSet.watch, SocketSet.setTimer, self.sockets.toOpaque())
    }

    /// Every transfer has been removed before: the loop that owns both ensures that.
    deinit {
        unsafe curl_multi_cleanup(self.raw)
        unsafe self.sockets.release()
    }

    func add(_ easy: borrowing EasyHandle) throws(FetchError) {
        let code = unsafe curl_multi_add_handle(self.raw, easy.raw)
        guard code == CURLM_OK else { throw FetchError(.library, "starting a transfer: code \(code.rawValue)") }
    }

    func remove(_ easy: borrowing EasyHandle) {
        // Fails only for a handle that is not attached, and then there is nothing to remove.
        _ = unsafe curl_multi_remove_handle(self.raw, easy.raw)
    }

    /// Returns the next transfer that has ended, with its result.
    func nextDone() -> (easy: EasyHandle.Identity, code: CURLcode)? {
        var left: Int32 = 0
        while let message = unsafe curl_multi_info_read(self.raw, &left) {
            // Other messages are not defined yet. Source: curl_multi_info_read(3)
            guard unsafe message.pointee.msg == CURLMSG_DONE else { continue }
            return unsafe (EasyHandle.Identity(message.pointee.easy_handle), message.pointee.data.result)
        }
        return nil
    }

    /// Waits for a transfer, a timer of libcurl, the descriptor or the limit, and does the work that is due; the
    /// callbacks run in here.
    func turn(milliseconds: Int32) throws(FetchError) {
        let (ready, isTimerDue) = try unsafe self.sockets.takeUnretainedValue().wait(milliseconds: milliseconds)
        for socket in ready { try self.act(on: socket) }
        if isTimerDue { try self.act(on: CURL_SOCKET_TIMEOUT) }
    }

    private func act(on socket: curl_socket_t) throws(FetchError) {
        var running: Int32 = 0
        // 0: libcurl itself looks for what the socket is ready.
        let code = unsafe curl_multi_socket_action(self.raw, socket, 0, &running)
        guard code == CURLM_OK else { throw FetchError(.library, "driving transfers: code \(code.rawValue)") }
    }
}

/// The sockets of a multi handle's transfers, and its timer. Lives on the fetcher's thread only.
@safe
private final class SocketSet {
    /// Most sockets that are ready in one turn; the others are in the next.
    private static let most = 256

    private let epoll: Int32
    /// Ends a wait when it is readable; not one of libcurl's.
    private let other: Int32
    /// The time at which libcurl wants to be called.
    private var due: ContinuousClock.Instant?
    private var events = unsafe Array(repeating: epoll_event(), count: SocketSet.most)

    init(_ other: Int32) throws(FetchError) {
        self.epoll = epoll_create1(Int32(EPOLL_CLOEXEC))
        self.other = other
        guard self.epoll >= 0, self.control(EPOLL_CTL_ADD, other, EPOLLIN.rawValue) else {
            throw FetchError(.library, "making an epoll set: error \(errno)")
        }
    }

    deinit { close(self.epoll) }

    /// Returns libcurl's sockets that are ready, and whether its timer is due.
    func wait(milliseconds: Int32) throws(FetchError) -> (ready: [curl_socket_t], isTimerDue: Bool) {
        var limit = milliseconds
        if let due {
            // Rounded up: a wait that ends early is followed by another one.
            let left = max(.zero, ContinuousClock.now.duration(to: due)) + .microseconds(999)
            limit = Int32(min(left / .milliseconds(1), Double(limit)))
        }
        let count = unsafe epoll_wait(self.epoll, &self.events, Int32(Self.most), limit)
        guard count >= 0 || errno == EINTR else {
            throw FetchError(.library, "waiting for transfers: error \(errno)")
        }
        let ready = unsafe self.events.prefix(Int(max(0, count))).map { unsafe $0.data.fd }.filter { $0 != self.other }
        guard let due, due <= .now else { return (ready, false) }
        self.due = nil
        return (ready, true)
    }

    /// Notes for what libcurl waits on a socket. Source: CURLMOPT_SOCKETFUNCTION(3)
    static let watch: curl_socket_callback = { _, socket, what, context, _ in
        guard let context = unsafe context else { return 0 }
        let set = unsafe Unmanaged<SocketSet>.fromOpaque(context).takeUnretainedValue()
        guard what != CURL_POLL_REMOVE else {
            // Fails only for a socket that is closed already, and so is in no set.
            _ = set.control(EPOLL_CTL_DEL, socket, 0)
            return 0
        }
        let reads = what == CURL_POLL_OUT ? 0 : EPOLLIN.rawValue
        let writes = what == CURL_POLL_IN ? 0 : EPOLLOUT.rawValue
        let isWatched =
            set.control(EPOLL_CTL_MOD, socket, reads | writes)
            || set.control(EPOLL_CTL_ADD, socket, reads | writes)
        return isWatched ? 0 : -1
    }

    /// Notes when libcurl wants to be called. Source: CURLMOPT_TIMERFUNCTION(3)
    static let setTimer: curl_multi_timer_callback = { _, milliseconds, context in
        guard let context = unsafe context else { return 0 }
        let set = unsafe Unmanaged<SocketSet>.fromOpaque(context).takeUnretainedValue()
        set.due = milliseconds < 0 ? nil : .now + .milliseconds(milliseconds)
        return 0
    }

    private func control(_ operation: Int32, _ descriptor: Int32, _ events: UInt32) -> Bool {
        var event = unsafe epoll_event()
        unsafe event.events = events
        unsafe event.data.fd = descriptor
        return unsafe epoll_ctl(self.epoll, operation, descriptor, &event) == 0
    }
}
