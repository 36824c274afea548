import CCurl
import Glibc

/// The sole owner of one `CURLM *`, on the fetcher's thread only.
@safe
struct MultiHandle: ~Copyable {
    private let raw: UnsafeMutableRawPointer

    /// - Parameter connections: the most connections kept open at once.
    init(connections: Int) throws(FetchError) {
        guard let raw = unsafe curl_multi_init() else { throw FetchError(.library, "making a multi handle: refused") }
        unsafe self.raw = raw
        _ = unsafe ccurl_multi_set_long(raw, CURLMOPT_MAXCONNECTS, connections)
    }

    /// Every transfer has been removed before: the loop that owns both ensures that.
    deinit { unsafe curl_multi_cleanup(self.raw) }

    func add(_ easy: borrowing EasyHandle) throws(FetchError) {
        let code = unsafe curl_multi_add_handle(self.raw, easy.raw)
        guard code == CURLM_OK else { throw FetchError(.library, "starting a transfer: code \(code.rawValue)") }
    }

    func remove(_ easy: borrowing EasyHandle) {
        // Fails only for a handle that is not attached, and then there is nothing to remove.
        _ = unsafe curl_multi_remove_handle(self.raw, easy.raw)
    }

    /// Does all work that is possible without waiting; the callbacks run in here.
    func perform() throws(FetchError) {
        var running: Int32 = 0
        let code = unsafe curl_multi_perform(self.raw, &running)
        guard code == CURLM_OK else { throw FetchError(.library, "driving transfers: code \(code.rawValue)") }
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

    /// Waits for a transfer, a timer of libcurl, the descriptor or the limit.
    func wait(descriptor: Int32, milliseconds: Int32) throws(FetchError) {
        var extra = curl_waitfd(fd: descriptor, events: Int16(CURL_WAIT_POLLIN), revents: 0)
        let code = unsafe curl_multi_poll(self.raw, &extra, 1, milliseconds, nil)
        guard code == CURLM_OK else { throw FetchError(.library, "waiting for transfers: code \(code.rawValue)") }
    }
}
