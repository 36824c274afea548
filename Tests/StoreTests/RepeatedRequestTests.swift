import Glibc
import Redis
import TestKit
import TestTraits
import Testing

@testable import Store

/// The entries of requests that may come again. One test at a time: each has its own server.
@Suite(.server, .serialized, .timeLimit(.minutes(2))) struct RepeatedRequestTests {
    typealias Attempt = RepeatedRequests.Attempt

    static func attempt(_ content: String = "content") -> Attempt { Attempt("name", content: Array(content.utf8)) }

    @Test func anEntryIsInOneStateAtATime() async throws {
        try await StoreFixture.with { fixture in
            let requests = RepeatedRequests(redis: fixture.redis)
            let first = Self.attempt()
            #expect(try await requests.begin(first, isRepeatable: false) == .first)
            #expect(try await requests.begin(first, isRepeatable: false) == .first, "a lost reply, and sent again")
            #expect(try await requests.begin(Self.attempt(), isRepeatable: true) == .running)
            #expect(try await requests.begin(Self.attempt("other"), isRepeatable: true) == .conflict)
            let answer: [UInt8] = [0, 10, 255] + Array("text ".utf8)
            try await requests.settle(first, as: .answered(answer))
            #expect(try await requests.begin(Self.attempt(), isRepeatable: false) == .answered(answer))
            #expect(try await requests.begin(Self.attempt("other"), isRepeatable: false) == .conflict)
            try await requests.settle(first, as: .undone)
            #expect(try await requests.begin(Self.attempt("other"), isRepeatable: false) == .first)
        }
    }

    @Test func anUnknownOutcomeEndsOnlyForARepeatableRequest() async throws {
        try await StoreFixture.with { fixture in
            let requests = RepeatedRequests(redis: fixture.redis)
            let first = Self.attempt()
            _ = try await requests.begin(first, isRepeatable: false)
            try await requests.settle(first, as: .unknown)
            #expect(try await requests.begin(Self.attempt(), isRepeatable: false) == .unknown)
            #expect(try await requests.begin(Self.attempt("other"), isRepeatable: true) == .conflict)
            #expect(try await requests.begin(Self.attempt(), isRepeatable: true) == .first)
            #expect(try await requests.begin(Self.attempt(), isRepeatable: true) == .running)
        }
    }

    /// An attempt whose process ended, or was suspended, in the middle.
    @Test func anAttemptThatRunsTooLongHasAnUnknownOutcome() async throws {
        try await StoreFixture.with { fixture in
            let requests = RepeatedRequests(redis: fixture.redis)
            let first = Self.attempt()
            _ = try await requests.begin(first, isRepeatable: false)
            let key = StoreKeys.repeated("name")
            let entry = try #require(try await fixture.raw("GET", key).text)
            let place = try #require(entry.lastIndex(of: "R"))
            let began = try #require(Int64(entry[entry.index(after: place)...]))
            func age(_ seconds: Int64) async throws {
                _ = try await fixture.raw("SET", key, entry[...place] + "\(began - seconds)", "EX", "1000")
            }
            try await age(RepeatedRequests.runningSeconds - 60)
            #expect(try await requests.begin(Self.attempt(), isRepeatable: true) == .running)
            try await age(RepeatedRequests.runningSeconds + 60)
            #expect(try await requests.begin(Self.attempt(), isRepeatable: false) == .unknown)
            let second = Self.attempt()
            #expect(try await requests.begin(second, isRepeatable: true) == .first)
            // The first one goes on: it must not touch the entry of its successor.
            try await requests.settle(first, as: .answered(Array("old".utf8)))
            #expect(try await requests.begin(Self.attempt(), isRepeatable: false) == .running)
            try await requests.settle(first, as: .undone)
            #expect(try await requests.begin(Self.attempt(), isRepeatable: false) == .running)
            try await requests.settle(second, as: .answered(Array("new".utf8)))
            #expect(try await requests.begin(Self.attempt(), isRepeatable: false) == .answered(Array("new".utf8)))
        }
    }

    @Test func anEntryExpiresAfterADay() async throws {
        try await StoreFixture.with { fixture in
            let requests = RepeatedRequests(redis: fixture.redis)
            let attempt = Self.attempt()
            _ = try await requests.begin(attempt, isRepeatable: false)
            func seconds() async throws -> Int64 {
                try #require(try await fixture.raw("TTL", StoreKeys.repeated("name")).integer)
            }
            #expect(try await seconds() > 86_300)
            try await requests.settle(attempt, as: .answered([]))
            #expect(try await seconds() > 86_300)
            #expect(try await requests.begin(Self.attempt(), isRepeatable: false) == .answered([]))
            // A value of another form is nobody's.
            _ = try await fixture.raw("SET", StoreKeys.repeated("name"), "other")
            #expect(try await requests.begin(Self.attempt(), isRepeatable: false) == .conflict)
        }
    }

    /// A fail-over must not forget a request that must not be performed twice.
    @Test func aRequestThatIsNotRepeatableWaitsForAReplica() async throws {
        let master = try await RedisServer.startAlone(["--repl-diskless-sync-delay", "0"])
        let replica = try await RedisServer.startAlone(["--replicaof", "127.0.0.1", "\(master.port)"])
        let (redis, waiting) = (try master.client(), try master.client())
        do {
            // It gets writes from its first acknowledgement on.
            try await master.command("set", "probe", "there")
            try await replica.until("there", in: "get", "probe")
            let requests = RepeatedRequests(redis: redis, waiting: waiting)
            func attempt(_ name: String) -> Attempt { Attempt(name, content: []) }
            #expect(try await requests.begin(attempt("first"), isRepeatable: false) == .first)
            #expect(try await replica.command("exists", StoreKeys.repeated("first")) == "1")
            replica.signal(SIGSTOP)
            let second = attempt("second")
            await #expect(throws: StoreError.self) { try await requests.begin(second, isRepeatable: false) }
            #expect(try await requests.begin(attempt("third"), isRepeatable: true) == .first)
            // Nothing was done.
            try await requests.settle(second, as: .undone)
            replica.signal(SIGCONT)
            #expect(try await requests.begin(attempt("fourth"), isRepeatable: false) == .first)
        } catch { Issue.record(error) }
        replica.signal(SIGCONT)
        await redis.close()
        await waiting.close()
        await replica.stop()
        await master.stop()
    }
}
