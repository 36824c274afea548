import Foundation
import Glibc

/// Programs that end on their own, such as `openssl` or `unzip`. `ChildProcess` is for servers.
///
/// They are started as `ChildProcess` does it and not by Foundation, which may crash when two programs are started
/// concurrently, and which passes all our descriptors on.
public enum Program {
    /// Runs a program to its end and returns its output, including standard error. Blocks the calling thread.
    ///
    /// The program gets no input, so it cannot wait for a password.
    /// - Parameter name: a name that is looked up in `PATH`.
    /// - Throws: `ProgramError` with the command and its output if it fails or is not installed.
    @discardableResult
    public static func run(_ name: String, _ arguments: [String]) throws -> String {
        let (child, output) = try Self.start(name, arguments)
        var bytes: [UInt8] = []
        while let more = output.read(upTo: 65536) { bytes += more }
        let said = String(decoding: bytes, as: UTF8.self)
        var status: Int32 = 0
        while unsafe waitpid(child, &status, 0) < 0, errno == EINTR {}
        let exit = ChildProcess.Exit(status: status)
        guard exit == .code(0) else {
            throw ProgramError(
                description: "running \(name) \(arguments.joined(separator: " ")): \(exit): \(said.suffix(2000))")
        }
        return said
    }

    /// Returns the path of a program that was built with the tests: it is in the folder of their executable.
    public static func built(_ name: String) -> String {
        URL(filePath: "/proc/self/exe").resolvingSymlinksInPath().deletingLastPathComponent().appending(path: name)
            .path()
    }

    /// - Returns: the child, and the reading end of its output; our copy of the writing end is closed.
    private static func start(_ name: String, _ arguments: [String]) throws -> (pid_t, Descriptor) {
        let output = try Descriptor.pipe()
        let child = try spawn(
            ["/usr/bin/env", name] + arguments, ProcessInfo.processInfo.environment.map { "\($0)=\($1)" },
            descriptors: [try .open("/dev/null", O_RDONLY), output.writing, output.writing])
        return (child, output.reading)
    }
}

/// A program that failed, with its output.
public struct ProgramError: Error, CustomStringConvertible {
    public let description: String
}
