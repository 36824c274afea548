public import ArgumentParser
import FoundationEssentials

/// `health` of each program: the answer of its own operations port, for a container without a shell.
public struct HealthCommand: AsyncParsableCommand {
    public static let configuration = CommandConfiguration(
        commandName: "health",
        abstract: "Asks the service that runs with the same configuration if it is ready.",
        discussion: """
            It asks \(SettingKey.operationsListen.rawValue) for /readyz and prints the answer. Exit codes: 0: ready \
            (with --live: alive); 1: not, or no answer within three seconds.
            """)

    @Flag(help: "Ask for /livez instead: is the process able to work at all?")
    var live = false

    public init() {}

    public func run() async throws {
        let check = try HealthCheck(environment: ProcessInfo.processInfo.environment, timeout: .seconds(3))
        let answer: HealthCheck.Answer
        do {
            answer = try await check.ask(self.live ? "/livez" : "/readyz")
        } catch {
            StandardStream.error.write("\(error)\n")
            throw ExitCode.failure
        }
        StandardStream.output.write(answer.text)
        if !answer.isHealthy { throw ExitCode.failure }
    }
}
