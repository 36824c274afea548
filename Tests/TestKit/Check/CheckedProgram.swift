import Foundation
public import Model

/// A run of a program's `check`, as a process.
public struct CheckedProgram: Sendable {
    public let exit: ChildProcess.Exit
    /// The document of `--json`.
    public let report: JSON
    /// The output.
    public let text: String

    /// Runs a program that was built beside the tests.
    ///
    /// - Throws: an error if the output is not one JSON document.
    public static func run(
        _ program: String, _ arguments: [String], _ environment: CheckedEnvironment
    ) async throws -> CheckedProgram {
        let child = try ChildProcess(
            Program.built(program), arguments,
            environment: environment.variables)
        let exit = try await child.exit(within: .seconds(40))
        return CheckedProgram(exit: exit, report: try JSON(parsing: Array(child.output.utf8)), text: child.output)
    }

    /// Returns the areas of findings, in alphabetical order.
    ///
    /// - Parameter severity: `faults` or `warnings`.
    public func areas(_ severity: String) -> [String] {
        (self.report.object?[severity]?.array ?? []).map { $0.object?["area"]?.string ?? "" }.sorted()
    }

    /// True if each fault has a fix.
    public var hasFixes: Bool {
        (self.report.object?["faults"]?.array ?? []).allSatisfy { $0.object?["fix"]?.string?.isEmpty == false }
    }
}
