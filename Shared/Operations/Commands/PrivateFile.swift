import FoundationEssentials
import Glibc

/// A file that a command writes for its user alone: it has customers' data.
public enum PrivateFile {
    /// Writes a file with mode 0600, whole or not at all: one that exists is replaced, whatever its mode.
    ///
    /// Anything but a regular file, such as a pipe or a link, stays what it is, and is written to: `/dev/stdout` is a
    /// link of the system, also to a regular file. That gets mode 0600 before it gets its content.
    /// - Throws: `FileContent.Failure`
    public static func write(_ content: [UInt8], to path: String) throws(FileContent.Failure) {
        var info = stat()
        if unsafe lstat(path, &info) == 0, info.st_mode & S_IFMT != S_IFREG {
            return try self.write(content, path, O_WRONLY | O_CLOEXEC | O_TRUNC)
        }
        let new = "\(path).\(UUID().uuidString)"
        do throws(FileContent.Failure) {
            try self.write(content, new, O_WRONLY | O_CLOEXEC | O_CREAT | O_EXCL)
            guard unsafe rename(new, path) == 0 else { throw FileContent.Failure.system() }
        } catch {
            unsafe unlink(new)
            throw error
        }
    }

    private static func write(_ content: [UInt8], _ path: String, _ flags: CInt) throws(FileContent.Failure) {
        let file = unsafe open(path, flags, 0o600)  // tidy: is written
        guard file >= 0 else { throw FileContent.Failure.system() }
        defer { close(file) }
        var info = stat()
        guard unsafe fstat(file, &info) == 0 else { throw FileContent.Failure.system() }
        let isRegular = info.st_mode & S_IFMT == S_IFREG
        guard !isRegular || fchmod(file, 0o600) == 0 else { throw FileContent.Failure.system() }
        try FileContent.write(content, to: file)
        guard !isRegular || fsync(file) == 0 else { throw FileContent.Failure.system() }
    }
}
