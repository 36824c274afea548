import Foundation
import Glibc
import TestKit
import TestTraits
import Testing

@testable import Packager

/// Under a stream of changes, the broker goes away and returns, its coordinator refuses, and workers are killed in
/// turn.
@Suite(.server) struct CrashStreamTests {
    /// Publishes some changes every 50 ms until `body` has ended.
    private func stream(
        _ fixture: CrashFixture, _ history: CrashHistory, while body: @Sendable () async throws -> Void
    ) async throws -> CrashHistory {
        let isOver = Flag()
        return try await withThrowingTaskGroup(of: CrashHistory.self) { group in
            group.addTask {
                var history = history
                while !isOver.isSet {
                    try await fixture.publish(history.part(3))
                    try await Task.sleep(for: .milliseconds(50))
                }
                return history
            }
            let result: Result<Void, any Error>
            do { result = .success(try await body()) } catch { result = .failure(error) }
            isOver.set()
            // The group has one task.
            let history = try await group.next()!
            try result.get()
            return history
        }
    }

    /// Waits until the group has committed more.
    private func moving(_ fixture: CrashFixture) async throws {
        let before = try await fixture.committed()
        try await eventually("offsets move on", within: .seconds(40)) { try await fixture.committed() > before }
    }

    private func expectToStop(_ worker: ChildProcess) async {
        let exit = await worker.stop(grace: .seconds(25))
        #expect(exit == .code(0), "\(worker.tail)")
    }

    @Test(.timeLimit(.minutes(3))) func kafkaOutagesLoseNoChange() async throws {
        try await CrashFixture.run { fixture in
            let worker = try fixture.worker()
            let history = try await self.stream(fixture, CrashHistory(seed: 11)) {
                for _ in 0..<3 {
                    try await self.moving(fixture)
                    try fixture.broker.setDown()
                    try await Task.sleep(for: .seconds(1))
                    try fixture.broker.setUp()
                }
                try await self.moving(fixture)
            }
            try await fixture.caughtUp(worker)
            await self.expectToStop(worker)
            try await fixture.expectSame(as: history.log, repeats: 3)
        }
    }

    @Test(.timeLimit(.minutes(3))) func redisRestartsLoseNoChange() async throws {
        try await CrashFixture.run { fixture in
            let worker = try fixture.worker()
            let history = try await self.stream(fixture, CrashHistory(seed: 14)) {
                for _ in 0..<2 {
                    try await self.moving(fixture)
                    await fixture.server.stop()
                    try await Task.sleep(for: .seconds(1))
                    try await fixture.server.restart()
                }
                try await self.moving(fixture)
            }
            try await fixture.caughtUp(worker)
            await self.expectToStop(worker)
            try await fixture.expectSame(as: history.log, repeats: 4)
        }
    }

    /// Source: Kafka protocol, API keys 8 OffsetCommit, 12 Heartbeat; errors 15 COORDINATOR_NOT_AVAILABLE, 16
    /// NOT_COORDINATOR, 27 REBALANCE_IN_PROGRESS
    @Test(.timeLimit(.minutes(3))) func groupCoordinatorMovesLoseNothing() async throws {
        try await CrashFixture.run { fixture in
            let worker = try fixture.worker()
            let history = try await self.stream(fixture, CrashHistory(seed: 12)) {
                try await self.moving(fixture)
                try fixture.broker.fail(apiKey: 8, with: [16, 15, 16, 15, 27])
                try await self.moving(fixture)
                try fixture.broker.fail(apiKey: 12, with: [16, 15, 27])
                try await self.moving(fixture)
                try fixture.broker.fail(apiKey: 12, with: [16, 16])
                try fixture.broker.fail(apiKey: 8, with: [16, 16, 16, 16, 16, 16, 16, 16])
                try await self.moving(fixture)
            }
            try await fixture.caughtUp(worker)
            await self.expectToStop(worker)
            try await fixture.expectSame(as: history.log, repeats: 20)
        }
    }

    /// Two workers, one of which is always about to be killed, for about twenty seconds.
    @Test(.timeLimit(.minutes(3))) func workersKilledInTurnLoseNothing() async throws {
        try await CrashFixture.run { fixture in
            let deaths = 3
            let survivors = Survivors(try [fixture.worker(), fixture.worker()])
            let history = try await self.stream(fixture, CrashHistory(seed: 13)) {
                for death in 0..<deaths {
                    try await self.moving(fixture)
                    // At a random moment.
                    try await Task.sleep(for: .milliseconds(.random(in: 0...100)))
                    try await survivors.replace(death % 2) { try fixture.worker() }
                }
            }
            for worker in await survivors.workers { try await fixture.caughtUp(worker) }
            for worker in await survivors.workers { await self.expectToStop(worker) }
            try await fixture.expectSame(as: history.log, repeats: 3 * deaths, mayFallBack: true)
        }
    }
}

/// The workers that are alive.
private actor Survivors {
    private(set) var workers: [ChildProcess]

    init(_ workers: [ChildProcess]) { self.workers = workers }

    func replace(_ place: Int, with new: @Sendable () throws -> ChildProcess) async throws {
        let old = self.workers[place]
        old.signal(SIGKILL)
        #expect(try await old.exit(within: .seconds(10)) == .signal(SIGKILL))
        self.workers[place] = try new()
    }
}
