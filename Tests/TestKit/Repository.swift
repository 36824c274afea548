public import Foundation

/// The repository from which the tests were compiled.
public enum Repository {
    /// The folder with `Package.swift`.
    public static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    /// Returns the lines that none of the documents has.
    ///
    /// - Parameter documents: paths below `root`.
    public static func lines(_ lines: [String], missingIn documents: String...) throws -> [String] {
        let text = try documents.map { try String(contentsOf: Self.root.appending(path: $0), encoding: .utf8) }.joined()
        return lines.filter { !text.contains("\n\($0)\n") }
    }
}
