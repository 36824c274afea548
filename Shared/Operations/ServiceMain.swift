import Dispatch
import FoundationEssentials
import Glibc
import Kafka
import Logging
public import Model
import NIOPosix
public import ServiceLifecycle
import UnixSignals

/// The start of a service: settings, log, metrics, operations endpoint, signals.
public enum ServiceMain {
    /// The discussion in a service's `--help`.
    public static let help = """
        Settings come from the environment, then from the JSON file that WAYBILL_CONFIG names, then from the \
        defaults; --check-config prints the names of all with their values. A value that is refused is named, and the \
        exit code is 78; it is 0 after a stop that was asked for, and 1 after any other end.
        """

    /// Reads the configuration, builds the services and runs them until SIGTERM or SIGINT.
    ///
    /// A configuration that is refused is printed, and ends the program with `RefusedConfiguration.exitCode`.
    /// - Parameters:
    ///   - name: that of the service, as in log lines: `waybill-gateway`.
    ///   - version: goes into the first line of the log.
    ///   - metrics: the table of the service's own metrics.
    ///   - checkOnly: true to print the effective configuration and return.
    ///   - conditions: the conditions of readiness besides Kafka.
    ///   - refusesEviction: true to refuse the start with a Redis that may delete any key to make room.
    ///   - dependence: the service's dependence on Kafka.
    ///   - needs: its requirements on topics.
    ///   - drain: the time for which the service still takes work after it was told to stop.
    ///   - read: reads the service's own settings; its errors prevent the start.
    ///   - build: makes the services in the order of dependence; they are stopped in reverse.
    public static func run<Own>(
        name: String, version: ProgramVersion, metrics: [MetricRow], checkOnly: Bool, conditions: [String],
        refusesEviction: Bool = false, dependence: KafkaReadiness.Dependence = .whole,
        needs: (Topics) -> [KafkaTopicNeed], drain: (Own) -> Duration = { _ in .zero },
        read: (Settings, CommonSettings) throws -> Own,
        build: (Own, ServiceEnvironment) async throws -> [any Service]
    ) async throws {
        let variables = ProcessInfo.processInfo.environment
        let (settings, common, own) = try RefusedConfiguration.ending {
            let settings = try Settings(environment: variables, isCheck: checkOnly)
            let common = try CommonSettings(settings)
            return (settings, common, try read(settings, common))
        }
        if checkOnly {
            let lines = settings.effective.map { "\($0.key.rawValue)=\($0.value)\n" }.joined()
            StandardStream.output.write(lines)
            let texts = UnknownVariable.all(in: variables).map { "\($0)" } + settings.warnings
            let warnings = texts.map { "warning: \($0)\n" }.joined()
            StandardStream.error.write(warnings)
            return
        }
        let registry = MetricsRegistry(metrics)
        let log = try LogWriter(
            LogQueue { LineLogHandler.notice(of: $0, label: name, format: common.logFormat) }, metrics: registry)
        defer { log.flush() }
        CrashedLog.beWritten()
        let logger = Logger(label: name) { _ in
            LineLogHandler(label: name, format: common.logFormat, level: common.logLevel, write: log.write)
        }
        logger.info("starting", metadata: ["version": "\(version)"])
        if !CoreFiles.forbid() {
            logger.warning("a core file of this process may have its keys in it: the system refuses to prevent that")
        }
        for (key, value) in settings.effective {
            logger.info("configuration", metadata: ["key": "\(key.rawValue)", "value": "\(value)"])
        }
        for variable in UnknownVariable.all(in: variables) {
            logger.warning("configuration", metadata: ["key": "\(variable.name)", "text": "\(variable)"])
        }
        for warning in settings.warnings {
            logger.warning("configuration could be safer", metadata: ["problem": "\(warning)"])
        }
        let group = MultiThreadedEventLoopGroup.singleton
        let spans = try common.tracesURL.map { url in
            try SpanExporter(
                url: url, format: SpanExport(service: name, version: ProgramVersion.number), metrics: registry,
                logger: logger)
        }
        let environment = ServiceEnvironment(
            common: common, group: group, metrics: registry,
            readiness: Readiness(conditions: conditions + [KafkaWatch.condition, OperationsServer.listening]),
            logger: logger, spans: spans)
        environment.liveness.watch(group)
        // A loop of its own answers while one of the others stands still.
        let operations = OperationsServer(
            address: common.operationsListen, readiness: environment.readiness, liveness: environment.liveness,
            metrics: environment.metrics, group: MultiThreadedEventLoopGroup(numberOfThreads: 1), logger: logger)
        BuildInformation.gauge(version, environment.metrics)
        try await RedisMonitor.check(environment, refusesEviction: refusesEviction)
        let watch = KafkaWatch(needs: needs(common.topics), dependence: dependence, environment: environment)
        let services: [any Service]
        do {
            services = try await build(own, environment)
        } catch let error as KafkaError where error.code == .configuration {
            // librdkafka is the one to know its properties.
            throw RefusedConfiguration.end(error)
        }
        // Last, so stopped first.
        let drain = drain(own)
        let end = ShutdownWatchdog(limit: drain + common.shutdownLimit, logger: logger) {
            log.flush()
            _exit(1)
        }
        let notifier = variables[ServiceNotifier.variable].flatMap { socket in
            socket.isEmpty
                ? nil : ServiceNotifier(socket: socket, readiness: environment.readiness, logger: logger)
        }
        // Early, so stopped when the others have made their last spans.
        let first: [any Service] = [operations, watch] + (spans.map { [$0] } ?? [])
        let last: [any Service] = [end] + (notifier.map { [$0] } ?? [])
        var configuration = ServiceGroupConfiguration(
            services: (first + services + last).map { .init(service: $0) },
            gracefulShutdownSignals: [.sigterm, .sigint], logger: logger)
        configuration.maximumGracefulShutdownDuration = drain + ShutdownWatchdog.patience(of: common.shutdownLimit)
        try await ServiceGroup(configuration: configuration).run()
        logger.info("stopped")
    }
}

/// The core file of a process that crashes, which would have its keys in it.
enum CoreFiles {
    /// Keeps memory out of core files, for the rest of the process: a file is limited to no bytes, and a dump that the
    /// system gives to a program, which no limit affects, has no memory in it. Debuggers may attach as before.
    ///
    /// Source: core(5), "Controlling which mappings are written to the core dump", "Piping core dumps to a program"
    /// - Returns: false if the system refuses the one or the other.
    static func forbid() -> Bool {
        var none = rlimit(rlim_cur: 0, rlim_max: 0)
        let isLimited = unsafe setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &none) == 0
        let isEmpty = (try? Data("0".utf8).write(to: URL(filePath: "/proc/self/coredump_filter"))) != nil
        return isLimited && isEmpty
    }
}

/// A watchdog that ends the process if its services do not end in time.
///
/// A service that is asked to end, and later cancelled, may still never do so: a library that hangs while it closes
/// (librdkafka before 2.1.0 when a partition was lost, CHANGELOG #4187), or a thread that never returns. Records that
/// are not committed by then are delivered again to another member, so nothing is lost by exiting.
///
/// Owner: the service group, which stops this one first. Thread: one of its own from the beginning of the shutdown, as
/// those of the pool may be the ones that hang. Bounded: by the limit.
struct ShutdownWatchdog: Service {
    /// Time from the beginning of the shutdown.
    let limit: Duration
    let logger: Logger
    let end: @Sendable () -> Void

    /// - Parameter end: ends the process; `_exit`, since handlers and destructors may hang as well.
    init(limit: Duration, logger: Logger, end: @escaping @Sendable () -> Void) {
        self.limit = limit
        self.logger = logger
        self.end = end
    }

    /// Returns the time after which services are cancelled: the rest of the limit is left for them to end.
    static func patience(of limit: Duration) -> Duration { limit - min(.seconds(2), limit / 10) }

    func run() async throws {
        // Cancellation also begins the shutdown: another service failed.
        try? await gracefulShutdown()
        let (limit, logger, end) = (self.limit, self.logger, self.end)
        try KafkaThread.start("shutdown") {
            let wait = DispatchTimeInterval.milliseconds(Int(limit / .milliseconds(1)))
            _ = DispatchSemaphore(value: 0).wait(timeout: .now() + wait)
            logger.critical("shutdown timed out, exiting", metadata: ["limit": "\(limit)"])
            end()
        }
    }
}
