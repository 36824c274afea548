import Foundation

/// A directory that is there for one test and gone with its last reference.
///
/// Removal is in `deinit`, so hold it as long as a server writes into it; `remove()` does it earlier.
public final class TemporaryDirectory: Sendable {
    /// The absolute path, without a slash at its end.
    public let path: String

    /// Makes a new empty directory below the system's place for temporary files.
    /// - Parameter label: stands in the name, for people who look at what is running.
    public init(_ label: String = "test") throws {
        let name = "waybill-\(label)-\(UUID().uuidString.prefix(13))"
        let url = FileManager.default.temporaryDirectory.appendingPathComponent(name)
        try FileManager.default.createDirectory(
            at: url, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        self.path = url.path
    }

    deinit { self.remove() }

    /// The path of a file or folder in it.
    public func path(_ name: String) -> String { "\(self.path)/\(name)" }

    /// Writes a file into it, in one piece for whoever reads it meanwhile, and returns its path.
    @discardableResult
    public func write(_ name: String, _ content: [UInt8]) throws -> String {
        let path = self.path(name)
        try Data(content).write(to: URL(fileURLWithPath: path), options: .atomic)
        return path
    }

    /// Writes a text file into it and returns its path.
    @discardableResult
    public func write(_ name: String, _ text: String) throws -> String { try self.write(name, Array(text.utf8)) }

    /// Reads a file of it.
    public func read(_ name: String) throws -> [UInt8] {
        Array(try Data(contentsOf: URL(fileURLWithPath: self.path(name))))
    }

    /// Removes it with all that is in it; a second call does nothing.
    public func remove() { try? FileManager.default.removeItem(atPath: self.path) }
}
