/// The `openssl` program, the independent judge of what we sign and the maker of development certificates.
public enum OpenSSLProgram {
    /// Runs `openssl` to its end and returns what it printed.
    /// - Throws: `ProgramError` with the command and what it said when it fails or is not installed.
    @discardableResult
    public static func run(_ arguments: [String]) throws -> String { try Program.run("openssl", arguments) }
}
