import Dispatch
import Kafka
import Logging
import NIOCore
import NIOPosix
import ServiceLifecycle
import ServiceLifecycleTestKit
import TestKit
import TestTraits
import Testing

@testable import Operations

/// The parts of a process that must not stand still.
@Suite struct LivenessTests {
    private let start = ContinuousClock.now

    @Test func aPartWithoutWorkDoesNotStandStill() {
        let liveness = Liveness()
        liveness.watch("worker") { nil }
        #expect(liveness.faults(now: self.start + .seconds(3600)).isEmpty)
    }

    @Test func aPartThatHasNotMovedForAMinuteIsNamed() {
        let liveness = Liveness()
        liveness.watch("worker") { [start] in start }
        liveness.watch("other") { [start] in start + .seconds(30) }
        #expect(liveness.faults(now: self.start + .seconds(60)).isEmpty)
        #expect(liveness.faults(now: self.start + .seconds(75)) == ["worker: has not moved for 75 s"])
    }

    @Test func aPartThatHasEndedDoesNotStandStill() {
        let heartbeat = Heartbeat()
        #expect(heartbeat.last == nil)
        heartbeat.beat()
        #expect(heartbeat.last != nil)
        heartbeat.end()
        #expect(heartbeat.last == nil)
    }

    /// Waits until `/livez` has this status, and returns its text.
    private func ask(_ port: Int, until status: Int) async throws -> String {
        let deadline = ContinuousClock.now + .seconds(30)
        while true {
            let answer = try await RawConnection.once(
                port: port, "GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            if answer.status == status { return answer.text }
            try #require(ContinuousClock.now < deadline, "\(answer.status): \(answer.text)")
            try await Task.sleep(for: .milliseconds(20))
        }
    }

    /// Runs a server that answers with a verdict while `body` works with its port.
    private func with(
        _ liveness: Liveness, _ body: @escaping @Sendable (Int) async throws -> Void
    ) async throws {
        try await OperationsServerTests().with(liveness: liveness, body)
    }

    @Test(.server) func aBlockedEventLoopIsNamed() async throws {
        let liveness = Liveness(patience: .seconds(1))
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 2)
        liveness.watch(group, every: .milliseconds(10))
        try await self.with(liveness) { port in
            #expect(try await self.ask(port, until: 200) == "alive\n")
            let release = DispatchSemaphore(value: 0)
            let loops = Array(group.makeIterator())
            loops[1].execute { release.wait() }
            let text = try await self.ask(port, until: 503)
            release.signal()
            #expect(text.contains("event-loop-1: has not moved for "))
            #expect(try await self.ask(port, until: 200) == "alive\n")
        }
        try await group.shutdownGracefully()
    }

    @Test(.server) func aBlockedThreadOfAConsumerIsNamed() async throws {
        let broker = try KafkaBroker(topics: [.init("changes", partitions: 1)])
        let liveness = Liveness(patience: .seconds(1))
        let release = DispatchSemaphore(value: 0)
        // Events are delivered on the polling thread.
        let configuration = KafkaConfiguration(bootstrap: broker.bootstrap) { event in
            if event.kind == .assigned { release.wait() }
        }
        let consumer = try KafkaConsumer(configuration, group: "g", topics: ["changes"])
        liveness.watch("kafka-consumer g") { consumer.turnedAt }
        try await self.with(liveness) { port in
            let text = try await self.ask(port, until: 503)
            release.signal()
            #expect(text.hasPrefix("kafka-consumer g: has not moved for "))
            #expect(try await self.ask(port, until: 200) == "alive\n")
        }
        await consumer.close()
        #expect(consumer.turnedAt == nil)
        broker.close()
    }

    @Test(.server, .timeLimit(.minutes(1))) func aConsumerWithoutABrokerDoesNotStandStill() async throws {
        let port = try ReservedPort()
        let consumer = try KafkaConsumer(
            KafkaConfiguration(bootstrap: "127.0.0.1:\(port.number)"), group: "g", topics: ["changes"])
        var last = ContinuousClock.now
        for _ in 0..<5 {
            let deadline = ContinuousClock.now + .seconds(10)
            while consumer.turnedAt ?? last <= last {
                try #require(ContinuousClock.now < deadline)
                try await Task.sleep(for: .milliseconds(20))
            }
            last = consumer.turnedAt ?? last
        }
        await consumer.close()
    }
}
