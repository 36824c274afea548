import Foundation

/// A directory for one test, removed with its last reference.
///
/// `deinit` removes the directory, so keep the reference while a server writes into it; `remove()` removes it earlier.
public final class TemporaryDirectory: Sendable {
    /// The absolute path, without a slash at its end.
    public let path: String

    /// Makes a new empty directory in the system's directory for temporary files.
    /// - Parameter label: a part of the name, for people who look at running processes.
    public init(_ label: String = "test") throws {
        let name = "waybill-\(label)-\(UUID().uuidString.prefix(13))"
        let url = FileManager.default.temporaryDirectory.appendingPathComponent(name)
        try FileManager.default.createDirectory(
            at: url, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        self.path = url.path
    }

    deinit { self.remove() }

    /// Returns the path of a file or folder in the directory.
    public func path(_ name: String) -> String { "\(self.path)/\(name)" }

    /// Writes a file, atomically for concurrent readers, and returns its path.
    @discardableResult
    public func write(_ name: String, _ content: [UInt8]) throws -> String {
        let path = self.path(name)
        try Data(content).write(to: URL(fileURLWithPath: path), options: .atomic)
        return path
    }

    /// Writes a text file and returns its path.
    @discardableResult
    public func write(_ name: String, _ text: String) throws -> String { try self.write(name, Array(text.utf8)) }

    /// Reads a file.
    public func read(_ name: String) throws -> [UInt8] {
        Array(try Data(contentsOf: URL(fileURLWithPath: self.path(name))))
    }

    /// Removes the directory with all its contents; a second call does nothing.
    public func remove() { try? FileManager.default.removeItem(atPath: self.path) }
}
