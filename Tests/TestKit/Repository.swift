public import Foundation

/// The repository from which the tests were compiled.
public enum Repository {
    /// The folder with `Package.swift`.
    public static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()
}
