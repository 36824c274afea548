import Foundation

/// The `openssl` program, the independent judge of what we sign and the maker of development certificates.
public enum OpenSSLProgram {
    /// Runs `openssl` to its end and returns what it printed.
    ///
    /// The commands used here end by themselves; nothing is read from the terminal, so none can wait for a password.
    /// - Throws: `DevelopmentCertificatesError` with the command and what it said when it fails or is not installed.
    @discardableResult
    public static func run(_ arguments: [String]) throws -> String {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["openssl"] + arguments
        process.standardInput = FileHandle.nullDevice
        let output = Pipe()
        process.standardOutput = output
        process.standardError = output
        try process.run()
        let said = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        guard process.terminationStatus == 0 else {
            throw DevelopmentCertificatesError(
                description: "running openssl \(arguments.joined(separator: " ")): "
                    + "exit \(process.terminationStatus): \(said.suffix(2000))")
        }
        return said
    }
}
