import Glibc

/// Standard output or standard error.
public enum StandardStream: Int32, Sendable {
    case output = 1
    case error = 2

    /// Writes a text, in one `write` if the system takes it at once, so that lines of several threads do not mix.
    ///
    /// It waits for as long as the reader does. A reader that went away is no reason to stop.
    /// - Returns: false if not all of it was written.
    @discardableResult
    public func write(_ text: String) -> Bool {
        var text = text
        return text.withUTF8 { bytes in
            var rest = UnsafeRawBufferPointer(bytes)
            while unsafe !rest.isEmpty {
                let written = unsafe Glibc.write(self.rawValue, rest.baseAddress, rest.count)
                if written > 0 {
                    unsafe rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(written))
                } else if errno == EAGAIN {
                    // A program that shares the stream made it non-blocking.
                    var room = pollfd(fd: self.rawValue, events: Int16(POLLOUT), revents: 0)
                    _ = unsafe poll(&room, 1, -1)
                } else if errno != EINTR {
                    return false
                }
            }
            return true
        }
    }
}
