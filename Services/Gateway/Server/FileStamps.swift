import Glibc

/// What tells that a file was changed or replaced, without reading it.
struct FileStamp: Hashable, Sendable {
    let device: UInt64
    let node: UInt64
    let size: Int64
    /// When content or rights changed last; a file that becomes readable changes by that.
    let changedSeconds: Int64
    let changedNanoseconds: Int64

    /// Follows symbolic links: that is how many tools replace certificates. Nil if the file is not there.
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

/// Decides when files that are looked at now and then are read again.
///
/// A change counts once it was seen twice alike: whoever replaces two files one after the other, or writes one slowly,
/// is given until the next look to finish.
struct FileStamps: Sendable {
    private var taken: [FileStamp?]
    private var seen: [FileStamp?]

    /// - Parameter taken: the stamps of the files from before they were read.
    init(taken: [FileStamp?]) {
        self.taken = taken
        self.seen = taken
    }

    /// Takes the stamps of a new look.
    ///
    /// - Parameter isAsked: someone asked for it, so the files are read whatever the stamps say.
    /// - Returns: whether the files are to be read now.
    mutating func isDue(_ stamps: [FileStamp?], isAsked: Bool = false) -> Bool {
        defer { self.seen = stamps }
        guard isAsked || (stamps != self.taken && stamps == self.seen) else { return false }
        self.taken = stamps
        return true
    }
}
