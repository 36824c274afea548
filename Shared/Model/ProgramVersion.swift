import CCommit

/// The version of a program, and those of the C libraries that it runs with.
public struct ProgramVersion: Sendable, CustomStringConvertible {
    /// The version of Waybill: all programs have the same.
    public static let number = "1.0.0"

    /// The commit that the program was built from, or `unknown`: Package.swift has it from `WAYBILL_COMMIT`.
    public static let commit = unsafe String(cString: waybill_commit())

    /// The version of the compiler that it was built with, in two parts.
    public static var swift: String {
        #if compiler(>=6.4)
            "6.4 or newer"
        #elseif compiler(>=6.3)
            "6.3"
        #else
            "6.2"
        #endif
    }

    private let program: String
    private let libraries: [(name: String, version: String)]

    /// - Parameters:
    ///   - program: its name.
    ///   - libraries: the C libraries that it uses.
    public init(_ program: String, libraries: [(name: String, version: String)]) {
        self.program = program
        self.libraries = libraries
    }

    /// Returns the version of a library; `unknown` if it is not used.
    public subscript(library: String) -> String {
        self.libraries.first { $0.name == library }?.version ?? "unknown"
    }

    public var description: String {
        let libraries = self.libraries.map { "\($0.name) \($0.version)" }.joined(separator: ", ")
        return "\(self.program) \(Self.number) (commit \(Self.commit), \(libraries))"
    }
}
