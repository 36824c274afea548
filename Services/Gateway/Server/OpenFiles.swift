import Glibc

/// How many files and sockets the process may have open.
enum OpenFiles {
    /// What the process needs besides clients: Redis, Kafka, the operations endpoint, event loops, logs.
    static let reserve = 256

    /// Raises the limit as far as the system allows without privileges.
    ///
    /// - Returns: the limit that holds then; nil if it cannot be found out.
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

    /// The connections that fit, of those that are wished for.
    static func connections(wished: Int, files: Int?) -> Int {
        guard let files else { return wished }
        return max(1, min(wished, files - Self.reserve))
    }
}
