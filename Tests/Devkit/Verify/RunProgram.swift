import Foundation
import TestKit

/// Runs programs to their end for the tools; any exit status is a valid result.
enum RunProgram {
    /// The result of a program.
    struct Outcome: Sendable {
        /// The exit status; 128 plus the signal for a program killed by one, as in shells.
        let status: Int32
        /// Standard output and standard error in order, the last 4 MiB.
        let output: String
    }

    /// Runs a program and waits for its end without blocking a thread; kills it after `deadline`.
    /// - Throws: `ToolError` with code `.program` if the program cannot be started or exceeds the deadline.
    static func run(
        _ arguments: [String], within deadline: Duration = .seconds(30)
    ) async throws(ToolError) -> Outcome {
        do {
            let child = try ChildProcess(arguments.first ?? "", Array(arguments.dropFirst()))
            switch try await child.exit(within: deadline) {
            case .code(let code): return Outcome(status: code, output: child.output)
            case .signal(let number): return Outcome(status: 128 + number, output: child.output)
            }
        } catch {
            throw ToolError(.program, "running \(arguments.first ?? ""): \(error)")
        }
    }

    /// Runs `body` with a temporary directory, which is removed afterwards.
    static func withScratchDirectory<Value>(_ body: (URL) async throws -> Value) async throws -> Value {
        let directory = try TemporaryDirectory("dev")
        defer { directory.remove() }
        return try await body(URL(fileURLWithPath: directory.path, isDirectory: true))
    }
}

/// Returns random bytes as hexadecimal digits, for unique names.
func randomHex(bytes: Int) -> String {
    var generator = SystemRandomNumberGenerator()
    return hex((0..<bytes).map { _ in UInt8.random(in: 0...255, using: &generator) })
}

/// Returns bytes as lower-case hexadecimal digits.
func hex(_ bytes: some Sequence<UInt8>) -> String {
    var text = ""
    for byte in bytes { text += (byte < 16 ? "0" : "") + String(byte, radix: 16) }
    return text
}

/// Reads a whole file.
func readFile(_ path: String) throws(ToolError) -> [UInt8] {
    do {
        return Array(try Data(contentsOf: URL(fileURLWithPath: path)))
    } catch {
        throw ToolError(.file, "reading \(path): \(error.localizedDescription)")
    }
}
