/// The `openssl` program, the independent verifier of our signatures and the maker of development certificates.
public enum OpenSSLProgram {
    /// Runs `openssl` to its end and returns its output.
    /// - Throws: `ProgramError` with the command and its output if it fails or is not installed.
    @discardableResult
    public static func run(_ arguments: [String]) throws -> String { try Program.run("openssl", arguments) }
}
