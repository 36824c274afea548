import FoundationEssentials
import Glibc

/// The core file of a process that crashes, which would have its keys in it.
enum CoreFiles {
    /// Keeps memory out of core files, for the rest of the process: a file is limited to no bytes, and a dump that the
    /// system gives to a program, which no limit affects, has no memory in it. Debuggers may attach as before.
    ///
    /// Source: core(5), "Controlling which mappings are written to the core dump", "Piping core dumps to a program"
    /// - Returns: false if the system refuses the one or the other.
    static func forbid() -> Bool {
        var none = rlimit(rlim_cur: 0, rlim_max: 0)
        let isLimited = unsafe setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &none) == 0
        let isEmpty = (try? Data("0".utf8).write(to: URL(filePath: "/proc/self/coredump_filter"))) != nil
        return isLimited && isEmpty
    }
}
