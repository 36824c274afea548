import Glibc

/// The content of a file.
public enum FileContent {
    /// The system's reason why a file cannot be read.
    public struct Failure: Error, CustomStringConvertible, Sendable {
        public let description: String
    }

    /// Reads a file, at most `limit` bytes and one more.
    ///
    /// - Throws: `Failure`
    public static func read(_ path: String, limit: Int) throws(Failure) -> [UInt8] {
        guard let file = unsafe fopen(path, "re") else { throw Self.failure() }
        defer { unsafe fclose(file) }
        var content: [UInt8] = []
        var part = [UInt8](repeating: 0, count: 65_536)
        while content.count <= limit {
            let count = unsafe fread(&part, 1, min(part.count, limit + 1 - content.count), file)
            if count == 0 {
                guard unsafe ferror(file) == 0 else { throw Self.failure() }
                break
            }
            content += part[..<count]
        }
        return content
    }

    private static func failure() -> Failure { Failure(description: unsafe String(cString: strerror(errno))) }
}
