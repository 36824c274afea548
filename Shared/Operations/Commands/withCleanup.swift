import FoundationEssentials
public import ServiceLifecycle
import UnixSignals

/// Returns the result of an operation after a cleanup, which runs also if the operation throws.
public func withCleanup<Value>(
    _ cleanup: () async -> Void, _ operation: () async throws -> Value
) async throws -> Value {
    let result: Result<Value, any Error>
    do { result = .success(try await operation()) } catch { result = .failure(error) }
    await cleanup()
    return try result.get()
}

extension ServiceEnvironment {
    /// Reads the configuration of a command, which is that of its service.
    ///
    /// - Throws: `ExitCode`, after the key and the value were printed.
    public static func ofCommand(_ program: String) throws -> (Settings, ServiceEnvironment) {
        try RefusedConfiguration.ending {
            let settings = try Settings(environment: ProcessInfo.processInfo.environment)
            return (settings, ServiceEnvironment(command: program, try CommonSettings(settings)))
        }
    }

    /// Runs the work of a command until it ends by itself, or is stopped by SIGTERM or SIGINT.
    public func run(_ work: any Service) async throws {
        var configuration = ServiceGroupConfiguration(
            services: [.init(service: work, successTerminationBehavior: .gracefullyShutdownGroup)],
            gracefulShutdownSignals: [.sigterm, .sigint], logger: self.logger)
        configuration.maximumGracefulShutdownDuration = self.common.shutdownLimit
        try await ServiceGroup(configuration: configuration).run()
    }
}
