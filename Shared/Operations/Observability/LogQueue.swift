import NIOCore

/// The lines of a log that wait for the thread that writes them. A value: no thread, no stream.
///
/// Bounded in lines and bytes. From the first line that does not fit, all are dropped until half of the room is free
/// again; one line then says how many there were, in their place.
struct LogQueue {
    struct Limits: Hashable, Sendable {
        var lines = 4096
        var bytes = 2 << 20
    }

    private struct Entry {
        let text: String
        /// The number of dropped lines that it mentions; 0 for a line of the log.
        let mentions: Int
    }

    private let limits: Limits
    /// Makes the line that says how many were dropped.
    private let notice: @Sendable (Int) -> String
    private var entries = CircularBuffer<Entry>()
    private var bytes = 0
    /// True from a line that does not fit until half of the room is free.
    private var isFull = false
    /// Dropped lines that no line has mentioned.
    private var unmentioned = 0
    /// All lines that were dropped, or could not be written.
    private(set) var dropped = 0

    init(_ limits: Limits = Limits(), notice: @escaping @Sendable (Int) -> String) {
        self.limits = limits
        self.notice = notice
    }

    /// The lines that wait, the one that is being written included.
    var count: Int { self.entries.count }

    /// The line to be written; it stays until `ended`.
    var next: String? { self.entries.first?.text }

    /// Takes a line, or drops it.
    mutating func add(_ line: String) {
        self.mention()
        let fits = self.entries.count < self.limits.lines && line.utf8.count <= self.limits.bytes - self.bytes
        guard fits, !self.isFull else {
            self.isFull = true
            self.dropped += 1
            self.unmentioned += 1
            return
        }
        self.append(line, mentions: 0)
    }

    /// Notes that the next line was written, or could not be: its reader is gone, or the disk is full.
    mutating func ended(isWritten: Bool) {
        guard let entry = self.entries.popFirst() else { return }
        self.bytes -= entry.text.utf8.count
        guard !isWritten else { return self.mention() }
        self.unmentioned += max(1, entry.mentions)
        if entry.mentions == 0 { self.dropped += 1 }
    }

    private mutating func append(_ text: String, mentions: Int) {
        self.entries.append(Entry(text: text, mentions: mentions))
        self.bytes += text.utf8.count
    }

    private mutating func mention() {
        guard self.unmentioned > 0, self.entries.count <= self.limits.lines / 2, self.bytes <= self.limits.bytes / 2
        else { return }
        self.append(self.notice(self.unmentioned), mentions: self.unmentioned)
        self.unmentioned = 0
        self.isFull = false
    }
}
