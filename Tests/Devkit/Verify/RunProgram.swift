import Foundation

/// Runs a program to its end.
enum RunProgram {
    /// What a program left behind.
    struct Outcome: Sendable {
        let status: Int32
        /// Standard output and standard error as they came.
        let output: String
    }

    /// Waits for the end without holding a thread; a program that runs longer than `deadline` is ended.
    /// - Throws: `ToolError` with code `.program` when it cannot be started.
    static func run(
        _ arguments: [String], within deadline: Duration = .seconds(30)
    ) async throws(ToolError) -> Outcome {
        let output = FileManager.default.temporaryDirectory.appendingPathComponent("waybill-dev-\(randomHex(bytes: 8))")
        guard FileManager.default.createFile(atPath: output.path, contents: nil),
            let handle = try? FileHandle(forWritingTo: output)
        else { throw ToolError(.file, "making \(output.path) for a program's output: not possible") }
        defer {
            try? handle.close()
            try? FileManager.default.removeItem(at: output)
        }

        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = arguments
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = handle
        process.standardError = handle
        do {
            let status: Int32 = try await withCheckedThrowingContinuation { continuation in
                process.terminationHandler = { continuation.resume(returning: $0.terminationStatus) }
                do {
                    try process.run()
                } catch {
                    process.terminationHandler = nil
                    continuation.resume(throwing: error)
                    return
                }
                let identifier = process.processIdentifier
                DispatchQueue.global().asyncAfter(deadline: .now() + .microseconds(Int(deadline.microseconds))) {
                    if process.isRunning, process.processIdentifier == identifier { process.terminate() }
                }
            }
            let text = (try? Data(contentsOf: output)).map { String(decoding: $0, as: UTF8.self) } ?? ""
            return Outcome(status: status, output: text)
        } catch {
            throw ToolError(.program, "starting \(arguments.first ?? ""): \(error)")
        }
    }

    /// A directory of its own for one piece of work, gone afterwards.
    static func withScratchDirectory<Value>(_ body: (URL) async throws -> Value) async throws -> Value {
        let directory = FileManager.default.temporaryDirectory
            .appendingPathComponent("waybill-dev-\(randomHex(bytes: 8))", isDirectory: true)
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }

        return try await body(directory)
    }
}

/// Hexadecimal digits of random bytes, for names that nobody else has.
func randomHex(bytes: Int) -> String {
    var generator = SystemRandomNumberGenerator()
    return hex((0..<bytes).map { _ in UInt8.random(in: 0...255, using: &generator) })
}

/// Lower-case hexadecimal digits.
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
