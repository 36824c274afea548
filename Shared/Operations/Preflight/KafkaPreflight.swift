import Kafka
import Model

/// The part of the check about Kafka: brokers, topics with their settings, and the rights that can be tried without a
/// record being written.
struct KafkaPreflight: Sendable {
    private let environment: ServiceEnvironment
    private let role: KafkaRole
    private let needs: [KafkaTopicNeed]
    private let patience: Int

    /// - Parameters:
    ///   - others: topics besides those of the role.
    ///   - patience: the factor of time limits.
    init(_ environment: ServiceEnvironment, _ role: KafkaRole, others: [KafkaTopicNeed] = [], patience: Int) {
        self.environment = environment
        self.role = role
        self.patience = patience
        let own = KafkaTopicNeed.installation(environment.common.topics).filter { need in
            role.rights.contains { $0.topic == need.name }
        }
        self.needs = own + others.filter { other in !own.contains { $0.name == other.name } }
    }

    /// The part that no request can tell.
    var unjudged: String {
        "whether each topic may be written to is told by the first record only: "
            + "waybill-packager topics acls prints the rights"
    }

    func findings() async -> [PreflightFinding] {
        do {
            let admin = try KafkaAdmin(self.environment.kafka, timeout: .seconds(2) * self.patience)
            let findings = await self.findings(admin)
            await admin.close()
            return findings
        } catch {
            return [PreflightFinding(.kafka, error.message, fix: "correct \(SettingKey.kafkaProperties.rawValue)")]
        }
    }

    private func findings(_ admin: KafkaAdmin) async -> [PreflightFinding] {
        var findings: [PreflightFinding] = []
        var found: [(need: KafkaTopicNeed, partitions: [KafkaPartitionState])] = []
        for need in self.needs {
            do throws(KafkaError) { found.append((need, try await admin.partitionStates(need.name))) } catch {
                guard error.code == .unknownTopic || error.code == .authorization else { return self.silence(error) }
                findings += need.faults(.failure(error), settings: nil).map(\.finding)
            }
        }
        do throws(KafkaError) {
            let settings = found.isEmpty ? [:] : try await admin.settings(of: found.map(\.need.name))
            for (need, partitions) in found {
                switch settings[need.name] {
                case .success(let values):
                    findings += need.faults(.success(partitions), settings: values).map(\.finding)
                    findings += need.risks(partitions, values).map(\.finding)
                    if need.isRead || self.role.reads.contains(need.name) {
                        findings += need.compression(values).map(\.finding)
                    }
                case .failure(let error): findings.append(Self.hidden(need.name, error.message))
                case nil: break
                }
            }
        } catch { findings.append(Self.hidden(found.map(\.need.name).joined(separator: ", "), error.message)) }
        guard !found.isEmpty else { return findings }
        async let writes = self.writes()
        return findings + (await self.groups(found[0].need.name)) + (await writes)
    }

    /// Returns the refusal of a producer that may write to no topic at all. It is made and writes nothing.
    ///
    /// A cluster gives a producer ID to a user who may write to any topic. Only librdkafka's log tells that there is
    /// one.
    /// Source: KIP-679; rdkafka_idempotence.c at v2.0.2, rd_kafka_idemp_pid_update
    private func writes() async -> [PreflightFinding] {
        let topics = self.role.writes
        guard !topics.isEmpty else { return [] }
        let (events, continuation) = AsyncStream.makeStream(of: KafkaEvent.self)
        var configuration = self.environment.kafka
        configuration.properties["debug"] = "eos"
        configuration.onEvent = { continuation.yield($0) }
        guard let producer = try? KafkaProducer(configuration, topics: topics) else { return [] }
        let right = await withTaskGroup(of: String?.self) { group in
            group.addTask {
                for await event in events {
                    if case .idempotence? = event.denial { return event.denial?.right }
                    if event.message.contains("Acquired PID") { return nil }
                }
                return nil
            }
            group.addTask { [patience] in
                try? await Task.sleep(for: .seconds(1) * patience)
                return nil
            }
            defer { group.cancelAll() }
            return await group.next() ?? nil
        }
        await producer.close()
        return right.map { [PreflightFinding(.kafka, "no topic may be written to", fix: "grant \($0)")] } ?? []
    }

    /// Returns the groups that the service may not join.
    private func groups(_ topic: String) async -> [PreflightFinding] {
        await withTaskGroup(of: PreflightFinding?.self) { tasks in
            for group in self.role.groups { tasks.addTask { await self.refusal(of: group, topic) } }
            return await tasks.reduce(into: []) { findings, finding in if let finding { findings.append(finding) } }
                .sorted()
        }
    }

    private func refusal(of group: String, _ topic: String) async -> PreflightFinding? {
        guard let admin = try? KafkaAdmin(self.environment.kafka, timeout: .seconds(1) * self.patience) else {
            return nil
        }
        var isRefused = false
        do throws(KafkaError) { _ = try await admin.committed(group: group, topic: topic) } catch {
            isRefused = error.code == .authorization
        }
        await admin.close()
        guard isRefused else { return nil }
        return PreflightFinding(.kafka, "group \(group) is refused", fix: "grant Read on group \(group)")
    }

    private func silence(_ error: KafkaError) -> [PreflightFinding] {
        let refusals = self.environment.refusals.reasons
        guard refusals.isEmpty else {
            let file = SettingKey.kafkaProperties.rawValue
            return refusals.map {
                PreflightFinding(.kafka, $0, fix: "correct security.protocol, sasl.* and ssl.* in the file of \(file)")
            }
        }
        let bootstrap = self.environment.common.kafka.bootstrap
        return [
            PreflightFinding(
                .kafka, "no broker answers at \(bootstrap): \(error.message)",
                fix: "start Kafka, or correct \(SettingKey.kafkaBootstrap.rawValue), the firewall, or security.protocol"
            )
        ]
    }

    private static func hidden(_ topics: String, _ reason: String) -> PreflightFinding {
        PreflightFinding(
            .kafka, .warning, "the settings of \(topics) are not checked: \(reason)",
            fix: "grant DescribeConfigs on these topics")
    }
}

extension KafkaFault {
    /// The fault as the check reports it.
    var finding: PreflightFinding {
        PreflightFinding(
            .kafka, self.kind == .warning ? .warning : .fault, self.problem,
            fix: self.fix.isEmpty ? "bring the brokers back" : self.fix)
    }
}
