import Glibc

/// The number of files and sockets that the process may have open.
enum OpenFiles {
    /// The files needed for other than clients: Redis, Kafka, the operations endpoint, event loops, logs.
    static let reserve = 256

    /// Raises the limit as far as the system allows without privileges.
    ///
    /// - Returns: the resulting limit; nil if it cannot be determined.
    static func raiseLimit() -> Int? {
        var limit = rlimit()
        guard unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return nil }
        if limit.rlim_cur < limit.rlim_max {
            var raised = limit
            raised.rlim_cur = limit.rlim_max
            if unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &raised) == 0 { limit = raised }
        }
        return Int(clamping: limit.rlim_cur)
    }

    /// Returns the number of requested connections that fit.
    static func connections(wished: Int, files: Int?) -> Int {
        guard let files else { return wished }
        return max(1, min(wished, files - Self.reserve))
    }
}
