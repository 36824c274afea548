import FoundationEssentials
import Glibc

/// The lines of a large file, one after the other. Thread: any, one at a time. Bounded: 64 KiB and one line.
public struct FileLines: ~Copyable {
    /// A line without its end.
    public struct Line: Sendable {
        /// From 1.
        public let number: Int
        /// Of a line that is too long the first `limit + 1` bytes.
        public let bytes: [UInt8]
        /// The place of the byte after it.
        public let end: Int64
    }

    /// Bytes of the file.
    public let size: Int64
    /// Nanoseconds since 1970 when the content was written; nil for a copy.
    public let changedNanoseconds: Int64?

    private let file: OpenFile
    private let limit: Int
    private var part: [UInt8] = []
    private var at = 0
    private var place: Int64 = 0
    private var number = 0

    /// Opens a file that an option names.
    ///
    /// - Parameters:
    ///   - path: anything but a regular file is copied first, to a file without a name in the folder for temporary
    ///     ones.
    ///   - limit: the most bytes of a line.
    ///   - copyLimit: the most bytes of such a copy.
    public init(_ path: String, limit: Int, copyLimit: Int) throws(FileContent.Failure) {
        var file = try OpenFile.open(path, 0)
        let isCopy = file.kind != S_IFREG
        if isCopy {
            file = try OpenFile.copy(
                file, to: ProcessInfo.processInfo.environment["TMPDIR"] ?? "/tmp", limit: copyLimit)
        }
        self.size = Int64(file.size)
        self.changedNanoseconds = isCopy ? nil : file.changedNanoseconds
        self.file = file
        self.limit = limit
    }

    /// Goes to the line that begins at a place.
    ///
    /// - Parameter lines: those before it.
    public mutating func seek(to place: Int64, lines: Int) throws(FileContent.Failure) {
        try self.file.seek(to: place)
        (self.part, self.at, self.place, self.number) = ([], 0, place, lines)
    }

    /// Returns the next line; nil at the end.
    public mutating func next() throws(FileContent.Failure) -> Line? {
        var line: [UInt8] = []
        let start = self.place
        while true {
            if self.at == self.part.count {
                (self.part, self.at) = (try self.file.part(), 0)
                if self.part.isEmpty { break }
            }
            let rest = self.part[self.at...]
            let end = rest.firstIndex(of: UInt8(ascii: "\n"))
            line += rest[..<(end ?? rest.endIndex)].prefix(max(0, self.limit + 1 - line.count))
            let count = (end.map { $0 + 1 } ?? rest.endIndex) - self.at
            self.at += count
            self.place += Int64(count)
            if end != nil { break }
        }
        guard self.place > start else { return nil }
        if line.last == UInt8(ascii: "\r") { line.removeLast() }
        self.number += 1
        return Line(number: self.number, bytes: line, end: self.place)
    }
}
