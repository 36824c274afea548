public import ArgumentParser
import FoundationEssentials
import Model

/// The options of `check`, which each program has, and the end of the command.
public struct CheckOptions: ParsableArguments {
    /// The help of the command.
    public static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Checks configuration and surroundings before the service is started: all faults, each with its fix.",
        discussion: """
            The configuration is that of the service, and nothing is changed. Looked at are: keys and values, brands, \
            permissions of secrets, versions of libraries; without --offline also Kafka (topics, settings, rights), \
            Redis (version, policy, persistence, replicas, scripts), clocks, and the hosts that it connects \
            to. Exit codes: 0: no fault; 78: a fault of the configuration or of a brand; 1: other faults.
            """)

    @Flag(help: "Ask nobody: files and keys only.") public var offline = false

    @Flag(help: "Print one JSON document: faults and warnings with area, text and fix; what was checked and skipped.")
    public var json = false

    public init() {}

    /// Prints a report that is made of the environment of this process.
    ///
    /// - Parameter make: makes the report; the flag is true to ask nobody.
    /// - Throws: `ExitCode` unless all is well.
    public func run(_ make: (_ variables: [String: String], _ isOffline: Bool) async -> PreflightReport) async throws {
        let report = await make(ProcessInfo.processInfo.environment, self.offline)
        StandardStream.output.write(self.json ? "\(report.json.text)\n" : report.text)
        if report.exitCode != 0 { throw ExitCode(report.exitCode) }
    }
}
