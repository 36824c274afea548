public import Logging
public import NIOPosix

/// What a service is built from besides its own parts.
public struct ServiceEnvironment: Sendable {
    public let common: CommonSettings
    public let group: MultiThreadedEventLoopGroup
    public let metrics: MetricsRegistry
    public let readiness: Readiness
    public let logger: Logger

    public init(
        common: CommonSettings, group: MultiThreadedEventLoopGroup, metrics: MetricsRegistry, readiness: Readiness,
        logger: Logger
    ) {
        self.common = common
        self.group = group
        self.metrics = metrics
        self.readiness = readiness
        self.logger = logger
    }
}
