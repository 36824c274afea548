import Kafka
import Model

/// The part of the check about Kafka: brokers, topics with their settings, and the rights that can be tried without a
/// record being written.
struct KafkaPreflight: Sendable {
    private let environment: ServiceEnvironment
    private let role: KafkaRole

    init(_ environment: ServiceEnvironment, _ role: KafkaRole) {
        self.environment = environment
        self.role = role
    }

    func findings() async -> [PreflightFinding] {
        do {
            let admin = try KafkaAdmin(self.environment.kafka, timeout: .seconds(2))
            let findings = await self.findings(admin)
            await admin.close()
            return findings
        } catch {
            return [PreflightFinding(.kafka, error.message, fix: "correct \(SettingKey.kafkaProperties.rawValue)")]
        }
    }

    private func findings(_ admin: KafkaAdmin) async -> [PreflightFinding] {
        let needs = KafkaTopicNeed.installation(self.environment.common.topics).filter { need in
            self.role.rights.contains { $0.topic == need.name }
        }
        var findings: [PreflightFinding] = []
        var found: [(need: KafkaTopicNeed, partitions: [KafkaPartitionState])] = []
        for need in needs {
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
                case .failure(let error): findings.append(Self.hidden(need.name, error.message))
                case nil: break
                }
            }
        } catch { findings.append(Self.hidden(found.map(\.need.name).joined(separator: ", "), error.message)) }
        return findings + (found.isEmpty ? [] : await self.groups(found[0].need.name))
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
        guard let admin = try? KafkaAdmin(self.environment.kafka, timeout: .seconds(1)) else { return nil }
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
