import Kafka
import Logging
import ServiceLifecycle

/// A watch that checks, at the start and periodically, that Kafka lets a service do its work. It reports to readiness
/// and the log.
///
/// Owner: `run`. Thread: a task, and the one of its `KafkaAdmin`. Bounded: a query by `timeout`; one check at a time.
struct KafkaWatch: Service {
    /// The condition of readiness.
    static let condition = "kafka"
    /// The longest time for a query.
    static let timeout = Duration.seconds(2)
    /// From one check of the topics to the next: while all is well, and while it is not.
    static let (pause, impatience) = (Duration.seconds(30), Duration.seconds(5))
    /// The interval at which readiness is updated with the events of handles.
    static let tick = Duration.milliseconds(250)

    let needs: [KafkaTopicNeed]
    let dependence: KafkaReadiness.Dependence
    let environment: ServiceEnvironment

    /// The result of one check.
    private struct Found {
        var faults: [KafkaFault]?
        var silence = ""
        /// True if the broker reported the settings of at least one topic.
        var hasSettings = false
        /// The reason why it reported none.
        var hidden: KafkaError?
    }

    /// - Throws: `KafkaFaultError` if the first check of the topics' settings finds that records would be lost.
    func run() async throws {
        let admin = try KafkaAdmin(self.environment.kafka, timeout: Self.timeout)
        do {
            try await cancelWhenGracefulShutdown { try await self.watch(admin) }
        } catch is CancellationError {
            await admin.close()
        } catch {
            await admin.close()
            throw error
        }
    }

    private func watch(_ admin: KafkaAdmin) async throws {
        let began = ContinuousClock.now
        var standing = KafkaReadiness(self.dependence)
        let upstream = self.environment.upstream(Self.condition)
        var log = FaultLog(logger: self.environment.logger)
        var lookAt = began
        var isChecked = false
        while true {
            var look = KafkaReadiness.Look()
            if .now >= lookAt {
                let found = await self.look(admin, wantsSettings: log.wantsSettings)
                (look.faults, look.silence) = (found.faults, found.silence)
                upstream.report(found.faults == nil ? found.silence : nil)
                if let faults = found.faults {
                    log.update(faults, hidden: found.hidden)
                    if found.hasSettings, !isChecked {
                        isChecked = true
                        let fatal = faults.filter { $0.kind == .fatal }.map(\.text)
                        guard fatal.isEmpty else { throw KafkaFaultError(faults: fatal) }
                    }
                }
                let isWell = found.faults?.allSatisfy { $0.kind == .warning } ?? false
                lookAt = .now + (isWell ? Self.pause : Self.impatience)
            }
            look.refusals = self.environment.refusals.reasons
            switch standing.judge(look, age: .now - began) {
            case .ready: self.environment.readiness.met(Self.condition)
            case .unready(let reason): self.environment.readiness.unmet(Self.condition, reason)
            case .open: break
            }
            try await Task.sleep(for: Self.tick)
        }
    }

    private func look(_ admin: KafkaAdmin, wantsSettings: Bool) async -> Found {
        var found = Found()
        var partitions: [Result<[KafkaPartitionState], KafkaError>] = []
        for need in self.needs {
            let asked = ContinuousClock.now
            do throws(KafkaError) {
                partitions.append(.success(try await admin.partitionStates(need.name)))
                self.environment.refusals.admitted(asked: asked)
            } catch {
                guard error.code == .unknownTopic || error.code == .authorization else {
                    found.silence = error.message
                    return found
                }
                partitions.append(.failure(error))
            }
        }
        var settings: [String: Result<[String: String], KafkaError>] = [:]
        if wantsSettings {
            do throws(KafkaError) {
                settings = try await admin.settings(of: self.needs.map(\.name))
            } catch {
                found.hidden = error
            }
        }
        found.faults = zip(self.needs, partitions).flatMap { need, partitions in
            switch settings[need.name] {
            case .success(let values):
                found.hasSettings = true
                return need.faults(partitions, settings: values)
            case .failure(let error):
                if error.code != .unknownTopic { found.hidden = error }
                return need.faults(partitions, settings: nil)
            case nil: return need.faults(partitions, settings: nil)
            }
        }
        return found
    }

    /// A log of the topics' faults that remembers the lines written.
    private struct FaultLog {
        let logger: Logger
        private var logged: Set<KafkaFault> = []
        private var isHidden = false
        /// False for a broker that does not offer this request, which it will not do later either.
        private(set) var wantsSettings = true

        init(logger: Logger) { self.logger = logger }

        /// Logs each fault that is new and each that is over, once.
        mutating func update(_ faults: [KafkaFault], hidden: KafkaError?) {
            let now = Set(faults)
            for fault in faults where !self.logged.contains(fault) {
                let level: Logger.Level = fault.kind == .warning ? .warning : .error
                self.logger.log(level: level, "Kafka topic needs attention", metadata: ["text": "\(fault.text)"])
            }
            for fault in self.logged.subtracting(now) where fault.kind != .warning {
                self.logger.notice("Kafka topic fault resolved", metadata: ["was": "\(fault.text)"])
            }
            self.logged = now
            guard let hidden else { return }
            if hidden.code == .unsupported { self.wantsSettings = false }
            if self.isHidden { return }
            self.isHidden = true
            self.logger.info(
                "cannot read Kafka topic settings, so they are not checked: grant DescribeConfigs",
                metadata: ["error": "\(hidden.message)"])
        }
    }
}

/// Topic settings with which a service must not start.
struct KafkaFaultError: Error, CustomStringConvertible {
    let faults: [String]

    var description: String { self.faults.joined(separator: "; ") }
}
