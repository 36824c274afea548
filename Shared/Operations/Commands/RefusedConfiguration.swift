import ArgumentParser

/// The end of a program whose configuration is refused: starting it again changes nothing.
public enum RefusedConfiguration {
    /// Source: sysexits.h, EX_CONFIG
    public static let exitCode: Int32 = 78

    /// Returns what is read; a failure is printed, and ends the program with `exitCode`.
    ///
    /// - Throws: `ExitCode`
    public static func ending<Value>(_ read: () throws -> Value) throws -> Value {
        do {
            return try read()
        } catch {
            throw Self.end(error)
        }
    }

    /// Prints a failure as other failures are printed.
    static func end(_ error: any Error) -> ExitCode {
        StandardStream.error.write("Error: \(error)\n")
        return ExitCode(Self.exitCode)
    }
}
