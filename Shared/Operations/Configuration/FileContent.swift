import FoundationEssentials
import Glibc

/// The content of a file: the one way to read what an operator or a tenant provides.
///
/// Check and reading use one open file, so that nothing can be swapped between them, and nothing blocks before it is
/// known to be a file.
public enum FileContent {
    /// The reason why a file cannot be read.
    public struct Failure: Error, CustomStringConvertible, Sendable {
        /// Without the name of the file.
        public let description: String

        /// The system's reason for the call that has just failed.
        static func system(_ problem: String = "") -> Failure {
            Failure(description: problem + (unsafe String(cString: strerror(errno))))
        }
    }

    /// Reads a file that a setting or an option names: of an operator, so wherever it is.
    ///
    /// - Parameter isPipeAllowed: true to read whatever it is, and to wait for its writer: `/dev/stdin`, `<(command)`.
    /// - Throws: `Failure`, also for one with more than `limit` bytes.
    public static func read(_ path: String, limit: Int, isPipeAllowed: Bool = false) throws(Failure) -> [UInt8] {
        let file = try OpenFile.open(path, isPipeAllowed ? 0 : Self.careful)
        guard isPipeAllowed || file.kind == S_IFREG else { throw Self.irregular }
        return try file.content(limit: limit)
    }

    /// Reads a regular file inside of a folder, whose author is trusted with nothing outside of it.
    ///
    /// Links are followed as long as they stay inside: a volume of Kubernetes works (`..data`), and `/etc/passwd` does
    /// not.
    /// - Parameters:
    ///   - name: relative to the folder.
    ///   - limit: the most bytes.
    /// - Throws: `Failure`
    public static func read(_ name: String, inside folder: String, limit: Int) throws(Failure) -> [UInt8] {
        let file = try Self.open(name, inside: folder)
        guard file.kind == S_IFREG else { throw Self.irregular }
        return try file.content(limit: limit)
    }

    /// Returns the names in a folder inside of another, unsorted; nil for anything but a folder.
    ///
    /// - Throws: `Failure` if it is not there, cannot be read, or is outside.
    public static func names(_ name: String, inside folder: String) throws(Failure) -> [String]? {
        let file = try Self.open(name, inside: folder)
        guard file.kind == S_IFDIR else { return nil }
        do {
            return try FileManager.default.contentsOfDirectory(atPath: file.entry)
        } catch {
            throw Failure(description: "the folder cannot be read")
        }
    }

    /// Writes all of a content to an open file.
    ///
    /// - Parameter problem: precedes the system's reason in a failure.
    static func write(_ content: [UInt8], to descriptor: CInt, problem: String = "") throws(Failure) {
        var rest = content[...]
        while !rest.isEmpty {
            let count = unsafe rest.withUnsafeBytes { unsafe Glibc.write(descriptor, $0.baseAddress, $0.count) }
            guard count >= 0 || errno == EINTR else { throw Failure.system(problem) }
            rest = rest.dropFirst(max(0, count))
        }
    }

    /// Opening a pipe would block, and a terminal would become that of the process.
    private static let careful = O_NONBLOCK | O_NOCTTY
    private static var irregular: Failure { Failure(description: "it is not a regular file") }

    private static func open(_ name: String, inside folder: String) throws(Failure) -> OpenFile {
        let outer = try OpenFile.open(folder, O_DIRECTORY, problem: "it cannot be read: ")
        let file = try OpenFile.open(name, in: outer.descriptor, Self.careful, problem: "it cannot be read: ")
        guard let real = file.path, let root = outer.path, real.hasPrefix(root == "/" ? root : "\(root)/") else {
            throw Failure(description: "the link leads out of the directory \(folder); copy the file")
        }
        return file
    }
}

/// An open file.
///
/// Owner: this value owns the descriptor.
struct OpenFile: ~Copyable {
    let descriptor: CInt
    /// The type among the bits of the mode. Source: inode(7)
    let kind: mode_t
    /// The size of a regular file in bytes.
    private(set) var size: Int
    /// Nanoseconds since 1970 when the content was written.
    let changedNanoseconds: Int64

    private init(_ descriptor: CInt, _ info: stat) {
        self.descriptor = descriptor
        self.kind = info.st_mode & S_IFMT
        self.size = info.st_size
        self.changedNanoseconds = Int64(info.st_mtim.tv_sec) * 1_000_000_000 + Int64(info.st_mtim.tv_nsec)
    }

    deinit { close(self.descriptor) }

    /// - Parameters:
    ///   - folder: the open folder that a relative path begins at.
    ///   - problem: precedes the system's reason in a failure.
    static func open(
        _ path: String, in folder: CInt = AT_FDCWD, _ flags: CInt, problem: String = ""
    ) throws(FileContent.Failure) -> OpenFile {
        let descriptor = unsafe openat(folder, path, O_RDONLY | O_CLOEXEC | flags)  // tidy: the one way
        guard descriptor >= 0 else { throw FileContent.Failure.system(problem) }
        var info = stat()
        guard unsafe fstat(descriptor, &info) == 0 else {
            defer { close(descriptor) }
            throw FileContent.Failure.system(problem)
        }
        return OpenFile(descriptor, info)
    }

    /// Opens a file without a name, which ends with this value, and fills it with the rest of another one.
    ///
    /// - Throws: `Failure`, also for more than `limit` bytes.
    static func copy(_ source: consuming OpenFile, to folder: String, limit: Int) throws(FileContent.Failure)
        -> OpenFile
    {
        var name = Array("\(folder)/waybill-XXXXXX".utf8CString)
        let descriptor = unsafe mkstemp(&name)
        guard descriptor >= 0 else { throw FileContent.Failure.system("no copy in \(folder): ") }
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        unsafe unlink(name)
        var copy = OpenFile(descriptor, stat())
        var count = 0
        while true {
            let part = try source.part()
            if part.isEmpty { break }
            count += part.count
            guard count <= limit else { throw FileContent.Failure(description: "it has more than \(limit) bytes") }
            try FileContent.write(part, to: copy.descriptor, problem: "no copy in \(folder): ")
        }
        copy.size = count
        try copy.seek(to: 0)
        return copy
    }

    /// Returns the next bytes, at most 64 KiB; none at the end.
    func part() throws(FileContent.Failure) -> [UInt8] {
        var part = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = unsafe Glibc.read(self.descriptor, &part, part.count)
            if count >= 0 {
                part.removeLast(part.count - count)
                return part
            }
            guard errno == EINTR else { throw FileContent.Failure.system() }
        }
    }

    /// Goes to a byte of a regular file.
    func seek(to place: Int64) throws(FileContent.Failure) {
        guard lseek(self.descriptor, Int(place), SEEK_SET) == Int(place) else { throw FileContent.Failure.system() }
    }

    /// The system's name of this open file. Source: proc(5), "/proc/[pid]/fd/"
    var entry: String { "/proc/self/fd/\(self.descriptor)" }

    /// The absolute path, without links; nil if the system does not tell it.
    var path: String? { try? FileManager.default.destinationOfSymbolicLink(atPath: self.entry) }

    func content(limit: Int) throws(FileContent.Failure) -> [UInt8] {
        guard self.kind != S_IFREG || self.size <= limit else {
            throw FileContent.Failure(description: "it has \(self.size) bytes, at most \(limit) are allowed")
        }
        var content: [UInt8] = []
        while content.count <= limit {
            let part = try self.part()
            if part.isEmpty { return content }
            content += part
        }
        throw FileContent.Failure(description: "it has more than \(limit) bytes")
    }
}
