import Foundation
import Synchronization

/// A program that ends by itself, such as `openssl` or `unzip`. For servers there is `ChildProcess`.
public enum Program {
    /// One start after the other: two at once in this process may crash inside Foundation on Linux.
    private static let starting = Mutex(())

    /// Runs a program to its end and returns what it printed, errors included.
    ///
    /// It gets no input, so none can wait for a password.
    /// - Parameter name: looked up in the PATH.
    /// - Throws: `ProgramError` with the command and what it said when it fails or is not installed.
    @discardableResult
    public static func run(_ name: String, _ arguments: [String]) throws -> String {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = [name] + arguments
        process.standardInput = FileHandle.nullDevice
        let output = Pipe()
        process.standardOutput = output
        process.standardError = output
        try Self.starting.withLock { _ in try process.run() }
        let said = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        guard process.terminationStatus == 0 else {
            throw ProgramError(
                description: "running \(name) \(arguments.joined(separator: " ")): "
                    + "exit \(process.terminationStatus): \(said.suffix(2000))")
        }
        return said
    }
}

/// A program that failed, with what it said.
public struct ProgramError: Error, CustomStringConvertible {
    public let description: String
}
