import Kafka
import Testing

@testable import Operations

@Suite struct KafkaRefusalsTests {
    private let start = ContinuousClock.now

    @Test func aRepeatedRefusalIsLoggedPeriodicallyUntilItStops() {
        var refusals = KafkaRefusals()
        let denial = KafkaDenial.write(topic: "orders")
        var told = 0
        for second in 0..<1200 where refusals.denied(denial, "no", now: self.start + .seconds(second)) { told += 1 }
        #expect(told == 2)
        #expect(refusals.reasons(now: self.start + .seconds(1200)) == ["no"])
        #expect(refusals.reasons(now: self.start + .seconds(1199) + KafkaRefusals.memory).isEmpty)
        #expect(refusals.denied(denial, "no", now: self.start + .seconds(1300)) == true, "it begins anew")
    }

    @Test func aRefusalReportedOnceLastsUntilAccessIsGranted() {
        var refusals = KafkaRefusals()
        let later = self.start + .seconds(86_400)
        _ = refusals.denied(.group("g"), "group", now: self.start)
        _ = refusals.denied(.read(topic: "a"), "read a", now: self.start)
        _ = refusals.denied(.read(topic: "b"), "read b", now: self.start)
        refusals.granted(.read(topic: "a"))
        #expect(refusals.reasons(now: later) == ["group", "read b"])
        refusals.joined()
        #expect(refusals.reasons(now: later).isEmpty)
    }

    @Test func aNewerAnswerClearsAnAuthenticationRefusal() {
        var refusals = KafkaRefusals()
        _ = refusals.denied(.access, "wrong password", now: self.start)
        refusals.admitted(asked: self.start - .seconds(1))
        #expect(refusals.reasons(now: self.start) == ["wrong password"])
        refusals.admitted(asked: self.start + .seconds(1))
        #expect(refusals.reasons(now: self.start).isEmpty)
    }
}

@Suite struct KafkaTopicNeedTests {
    private let three = [KafkaPartitionState](repeating: .init(replicas: 3, inSync: 3), count: 4)
    private let orders = KafkaTopicNeed(
        "orders", isRead: true, isWritten: true, isCompacted: true, messageBytes: 1 << 20, largestBytes: 4 << 20)
    private let good = ["cleanup.policy": "compact", "min.insync.replicas": "2", "max.message.bytes": "4194304"]

    private func faults(_ name: String, _ value: String) -> [KafkaFault] {
        self.orders.faults(.success(self.three), settings: self.good.merging([name: value]) { $1 })
    }

    @Test func aCorrectTopicHasNoFault() {
        #expect(self.orders.faults(.success(self.three), settings: self.good).isEmpty)
        #expect(self.orders.faults(.success(self.three), settings: nil).isEmpty)
        #expect(self.orders.faults(.failure(KafkaError(.timedOut, "")), settings: nil).isEmpty)
    }

    @Test func aMissingOrRefusedTopicIsAFault() {
        let missing = self.orders.faults(.failure(KafkaError(.unknownTopic, "")), settings: nil)
        #expect(missing.map(\.kind) == [.refused])
        #expect(missing[0].text.contains("create it"))
        let refused = self.orders.faults(.failure(KafkaError(.authorization, "")), settings: nil)
        #expect(refused.map(\.kind) == [.refused])
        #expect(refused[0].text.hasSuffix("grant Read and Write on topic orders"), "\(refused[0].text)")
    }

    @Test(arguments: ["delete", "compact,delete", "delete, compact", ""])
    func aCleanupPolicyOtherThanCompactIsFatal(policy: String) {
        let faults = self.faults("cleanup.policy", policy)
        #expect(faults.map(\.kind) == [.fatal])
        #expect(faults[0].text.contains("--entity-name orders --add-config cleanup.policy=compact"))
    }

    @Test func aTopicOfChangesIsNotCompacted() {
        let changes = KafkaTopicNeed("changes", isRead: true)
        let faults = changes.faults(.success(self.three), settings: ["cleanup.policy": "compact"])
        #expect(faults.map(\.kind) == [.refused])
        #expect(changes.faults(.success(self.three), settings: ["cleanup.policy": "delete"]).isEmpty)
    }

    @Test func tooFewReplicasAreRefusedAndOfflineOnesAreTemporary() {
        #expect(self.faults("min.insync.replicas", "4").map(\.kind) == [.refused])
        var partitions = self.three
        partitions[1] = KafkaPartitionState(replicas: 3, inSync: 1)
        let faults = self.orders.faults(.success(partitions), settings: self.good)
        #expect(faults.map(\.kind) == [.passing])
        #expect(faults[0].text.contains("1 of 4 partitions"), "\(faults[0].text)")
        // A service that only reads is not affected.
        let reader = KafkaTopicNeed("orders", isRead: true, isCompacted: true)
        #expect(reader.faults(.success(partitions), settings: self.good).isEmpty)
    }

    /// With one replica that must be in sync, the list of those in sync says nothing.
    @Test func partitionsWithoutALeaderConcernReadersToo() {
        var partitions = self.three
        for index in 0..<2 { partitions[index] = KafkaPartitionState(replicas: 3, inSync: 0, hasLeader: false) }
        let settings = self.good.merging(["min.insync.replicas": "1"]) { $1 }
        for need in [self.orders, KafkaTopicNeed("orders", isRead: true, isCompacted: true)] {
            for known in [settings, nil] {
                let faults = need.faults(.success(partitions), settings: known)
                #expect(faults.map(\.kind) == [.passing])
                #expect(faults.first?.text.contains("2 of 4 partitions have no leader") == true)
            }
        }
    }

    @Test func aLowMessageSizeLimitIsRefusedOrWarnedAbout() {
        #expect(self.faults("max.message.bytes", "65536").map(\.kind) == [.refused])
        // Kafka's default.
        let faults = self.faults("max.message.bytes", "1048588")
        #expect(faults.map(\.kind) == [.warning])
        #expect(faults[0].text.contains("max.message.bytes=4194304"), "\(faults[0].text)")
    }
}

@Suite struct KafkaStandingTests {
    private let refused = KafkaFault(kind: .refused, problem: "no topic", fix: "")
    private let passing = KafkaFault(kind: .passing, problem: "brokers are away", fix: "")

    @Test func aWorkerIsUnreadyWhileKafkaPreventsItsWork() {
        var standing = KafkaReadiness(.whole)
        #expect(standing.judge(.init(silence: "no broker"), age: .seconds(60)) == .unready("no broker"))
        #expect(standing.judge(.init(faults: [self.refused]), age: .seconds(61)) == .unready("no topic"))
        #expect(standing.judge(.init(), age: .seconds(62)) == .unready("no topic"), "until it is looked at again")
        #expect(standing.judge(.init(faults: []), age: .seconds(63)) == .ready)
        #expect(standing.judge(.init(faults: [self.passing]), age: .seconds(64)) == .unready("brokers are away"))
        #expect(standing.judge(.init(faults: []), age: .seconds(65)) == .ready)
        #expect(standing.judge(.init(refusals: ["no right"]), age: .seconds(66)) == .unready("no right"))
        // An outage says nothing about topics; the worker's own conditions report it.
        #expect(standing.judge(.init(silence: "no broker"), age: .seconds(67)) == .ready)
    }

    @Test func aGatewayDoesNotBecomeReadyWhileKafkaRefusesIt() {
        var standing = KafkaReadiness(.part)
        #expect(standing.judge(.init(faults: [self.refused]), age: .seconds(2)) == .unready("no topic"))
        #expect(standing.judge(.init(faults: [], refusals: ["no right"]), age: .seconds(3)) == .unready("no right"))
        #expect(standing.judge(.init(), age: .seconds(9)) == .ready)
    }

    /// Packages are still served from Redis.
    @Test func kafkaFaultsDoNotMakeAReadyGatewayUnready() {
        var standing = KafkaReadiness(.part)
        #expect(standing.judge(.init(faults: []), age: .milliseconds(10)) == .open, "refusals may be on their way")
        #expect(standing.judge(.init(), age: KafkaReadiness.settling) == .ready)
        #expect(standing.judge(.init(faults: [self.refused], refusals: ["no"]), age: .seconds(9)) == .open)
    }

    @Test func aGatewayStartsWhileKafkaIsAway() {
        var standing = KafkaReadiness(.part)
        #expect(standing.judge(.init(silence: "no broker"), age: .seconds(1)) == .unready("no broker"))
        #expect(standing.judge(.init(silence: "no broker"), age: KafkaReadiness.patience) == .ready)
        var halved = KafkaReadiness(.part)
        #expect(halved.judge(.init(faults: [self.passing]), age: .seconds(2)) == .ready)
    }
}
