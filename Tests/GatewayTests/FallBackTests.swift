import Model
import NIOCore
import Redis
import Store
import Synchronization
import TestKit
import TestTraits
import Testing

@testable import Gateway

/// The gateway's answers while Redis is restarted, perhaps with an older copy of its data, and requests keep coming.
@Suite(.server, .serialized, .timeLimit(.minutes(3))) struct FallBackTests {
    typealias Fixture = GatewayFixture

    private static func options(isCluster: Bool = false) -> Fixture.Options {
        // By default, a Redis server that is waiting for its disk answers before it has written the data.
        let savingAtOnce = ["--appendonly", "yes", "--appendfsync", "no"]
        return Fixture.Options(redisDeadline: .seconds(2), redisArguments: savingAtOnce, isCluster: isCluster)
    }

    /// The state of Redis at the moment of a request.
    private enum Phase: Hashable, Sendable {
        case before
        /// Redis is down or restarting.
        case away
        /// Redis is back, but its data has not been confirmed yet.
        case doubt
        /// The view is being confirmed, or has been confirmed.
        case after
    }

    /// A kind of request, and the answer expected while Redis has all data.
    private struct Question: Sendable {
        let name: String
        let isRight: @Sendable (RawConnection.Response) -> Bool
        let ask: @Sendable () async throws -> RawConnection.Response
    }

    private static func questions(_ fixture: Fixture) -> [Question] {
        let body = #"{"pushToken":"aa"}"#
        return [
            Question(name: "package") {
                $0.status == 200 && $0["etag"] == "\"tag-2\""
            } ask: {
                try await fixture.once("GET", fixture.package("1"), token: Fixture.ownToken)
            },
            Question(name: "condition") {
                $0.status == 200 && $0["etag"] == "\"tag-2\""
            } ask: {
                try await fixture.once(
                    "GET", fixture.package("1"), token: Fixture.ownToken, [#"If-None-Match: "tag-1""#])
            },
            Question(name: "register") {
                $0.status == 200 || $0.status == 201
            } ask: {
                try await fixture.once("POST", fixture.registration("e", "2"), token: Fixture.ownToken, body: body)
            },
            Question(name: "unregister") {
                $0.status == 200
            } ask: {
                try await fixture.once("DELETE", fixture.registration("f", "2"), token: Fixture.ownToken)
            },
            Question(name: "list") {
                $0.status == 200
            } ask: {
                try await fixture.once("GET", fixture.list("d"))
            },
            Question(name: "new package") {
                $0.status == 200
            } ask: {
                try await fixture.once("GET", fixture.package("2"), token: Fixture.ownToken)
            },
        ]
    }

    /// The answers, counted by question.
    private final class Record: Sendable {
        struct State {
            var phase = Phase.before
            var rights: [Phase: [String: Int]] = [:]
            var refusals: [Phase: [String: Int]] = [:]
            var wrong: [String] = []
        }
        private let state = Mutex(State())

        var phase: Phase { self.state.withLock { $0.phase } }
        var wrong: [String] { self.state.withLock { $0.wrong } }
        func enter(_ phase: Phase) { self.state.withLock { $0.phase = phase } }

        /// Records an answer. A request that spans two phases may be answered as in either.
        func note(_ question: Question, _ answer: RawConnection.Response, since begin: Phase) {
            self.state.withLock { state in
                let isRight = question.isRight(answer)
                let mayBeRight = !(begin == .doubt && state.phase == .doubt)
                if isRight && mayBeRight {
                    if begin == state.phase { state.rights[begin, default: [:]][question.name, default: 0] += 1 }
                } else if answer.status == 503, answer["retry-after"] != nil, begin != .before || state.phase != .before
                {
                    if begin == state.phase { state.refusals[begin, default: [:]][question.name, default: 0] += 1 }
                } else {
                    let tag = answer["etag"] ?? ""
                    state.wrong.append("\(question.name), \(begin) to \(state.phase): \(answer.status) \(tag)")
                }
            }
        }

        /// Waits until each question has been answered `count` times.
        func until(_ count: Int, of questions: [Question], right isRight: Bool) async throws {
            let deadline = ContinuousClock.now + .seconds(30)
            while true {
                let counts = self.state.withLock { (isRight ? $0.rights : $0.refusals)[$0.phase] ?? [:] }
                if questions.allSatisfy({ counts[$0.name, default: 0] >= count }) { return }
                guard ContinuousClock.now < deadline, self.wrong.isEmpty else {
                    Issue.record("\(self.phase): \(counts), wrong: \(self.wrong.prefix(5))")
                    throw CancellationError()
                }
                try await Task.sleep(for: .milliseconds(5))
            }
        }
    }

    /// Restarts Redis while requests keep arriving, then checks and confirms the view as a packager does.
    private func startAgain(_ fixture: Fixture, losing saved: RedisServer.Saved?) async throws {
        let questions = Self.questions(fixture)
        let record = Record()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for question in questions {
                group.addTask {
                    while !Task.isCancelled {
                        let begin = record.phase
                        record.note(question, try await question.ask(), since: begin)
                    }
                }
            }
            group.addTask {
                try await record.until(5, of: questions, right: true)
                record.enter(.away)
                await fixture.server.stop()
                if let saved { try fixture.server.putBack(saved) }
                try await fixture.server.restart()
                let view = MaterializedView(redis: fixture.redis)
                var shards: [MaterializedView.Shard] = []
                let deadline = ContinuousClock.now + .seconds(30)
                while shards.isEmpty {
                    shards = (try? await view.look()) ?? []
                    try #require(ContinuousClock.now < deadline)
                }
                #expect(shards.allSatisfy { $0.epoch != nil && !$0.isHere })
                record.enter(.doubt)
                try await record.until(10, of: questions, right: false)
                if saved != nil { try await Self.putNewest(fixture) }
                record.enter(.after)
                try await view.confirm(shards, epoch: "again")
                try await record.until(5, of: questions, right: true)
            }
            // The other tasks end only by cancellation or with an error.
            while let end = await group.nextResult() {
                if case .failure(let error) = end { throw error }
                break
            }
            group.cancelAll()
        }
        #expect(record.wrong.isEmpty, "\(record.wrong.count): \(record.wrong.prefix(10))")
    }

    /// Stores the data that the older copy lacks.
    private static func putNewest(_ fixture: Fixture) async throws {
        try await fixture.put("1", version: 2)
        try await fixture.put("2")
        let registrations = Registrations(redis: fixture.redis)
        try await registrations.register(
            .init(device: .init("d"), order: try Fixture.key("2")),
            .init(pushToken: .init("aa"), registeredEpochMilliseconds: 1))
    }

    @Test(arguments: [false, true]) func anOlderRedisCopyIsNotServedUntilConfirmed(isCluster: Bool) async throws {
        try await Fixture.with(Self.options(isCluster: isCluster)) { fixture in
            try await fixture.put("1")
            let saved = try fixture.server.saved()
            try await Self.putNewest(fixture)
            try await self.startAgain(fixture, losing: saved)
        }
    }

    @Test func aRestartedRedisIsServedAgainOnceConfirmed() async throws {
        try await Fixture.with(Self.options()) { fixture in
            try await fixture.put("1")
            try await Self.putNewest(fixture)
            try await self.startAgain(fixture, losing: nil)
        }
    }
}
