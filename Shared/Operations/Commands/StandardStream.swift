import Glibc

/// Standard output or standard error.
public enum StandardStream: Int32, Sendable {
    case output = 1
    case error = 2

    /// Writes a text, in one `write` if the system takes it at once, so that lines of several threads do not mix.
    ///
    /// A reader that went away is no reason to stop, and its failure cannot be reported anywhere.
    public func write(_ text: String) {
        var text = text
        text.withUTF8 { bytes in
            var rest = UnsafeRawBufferPointer(bytes)
            while unsafe !rest.isEmpty {
                let written = unsafe Glibc.write(self.rawValue, rest.baseAddress, rest.count)
                if written > 0 {
                    unsafe rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(written))
                } else if errno != EINTR {
                    return
                }
            }
        }
    }
}
