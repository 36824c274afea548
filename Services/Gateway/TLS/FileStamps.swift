import Glibc
import ServiceLifecycle
import UnixSignals

/// Calls `look` at an interval and on SIGHUP, until the graceful shutdown.
///
/// - Parameter look: receives true if a reload was requested.
func watchFiles(every interval: Duration, look: @escaping @Sendable (_ isAsked: Bool) async -> Void) async {
    await cancelWhenGracefulShutdown {
        await withTaskGroup { group in
            group.addTask {
                while (try? await Task.sleep(for: interval)) != nil { await look(false) }
            }
            group.addTask {
                for await _ in await UnixSignalsSequence(trapping: .sighup) { await look(true) }
            }
        }
    }
}

/// The attributes by which a change or replacement of a file is detected without reading it.
struct FileStamp: Hashable, Sendable {
    let device: UInt64
    let node: UInt64
    let size: Int64
    /// The time of the last change of content or rights, so that a file that becomes readable counts as changed.
    let changedSeconds: Int64
    let changedNanoseconds: Int64

    /// Follows symbolic links: many tools replace certificates in this way. Nil if the file does not exist.
    init?(path: String) {
        var status = stat()
        guard unsafe stat(path, &status) == 0 else { return nil }
        self.device = UInt64(status.st_dev)
        self.node = UInt64(status.st_ino)
        self.size = Int64(status.st_size)
        self.changedSeconds = Int64(status.st_ctim.tv_sec)
        self.changedNanoseconds = Int64(status.st_ctim.tv_nsec)
    }
}

/// Decides when files that are checked periodically are read again.
///
/// A change counts once two checks have seen it alike: a program that replaces two files one after the other, or writes
/// one slowly, has until the next check to finish.
struct FileStamps: Sendable {
    private var taken: [FileStamp?]
    private var seen: [FileStamp?]

    /// - Parameter taken: the stamps of the files from before they were read.
    init(taken: [FileStamp?]) {
        self.taken = taken
        self.seen = taken
    }

    /// Processes the stamps of a new check.
    ///
    /// - Parameter isAsked: true if a reload was requested, so the files are read whatever the stamps are.
    /// - Returns: true if the files must be read.
    mutating func isDue(_ stamps: [FileStamp?], isAsked: Bool = false) -> Bool {
        defer { self.seen = stamps }
        guard isAsked || (stamps != self.taken && stamps == self.seen) else { return false }
        self.taken = stamps
        return true
    }
}
