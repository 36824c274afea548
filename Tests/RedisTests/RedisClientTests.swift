import NIOCore
import NIOPosix
import Synchronization
import TestKit
import TestTraits
import Testing

@testable import Redis

/// The command that changes nothing.
let ping = RedisCommand("PING")

/// Runs `body` with a client that is closed afterwards.
func withClient(
    _ configuration: RedisConfiguration, on group: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
    _ body: (RedisClient) async throws -> Void
) async throws {
    let client = RedisClient(configuration, eventLoopGroup: group)
    do { try await body(client) } catch {
        await client.close()
        throw error
    }
    await client.close()
}

/// Returns the code of the error that `body` throws, nil if it does not fail.
func code(_ body: () async throws(RedisError) -> Void) async -> RedisError.Code? {
    do { try await body() } catch { return error.code }
    return nil
}

/// Tries until the server answers again.
func untilItAnswers(_ client: RedisClient) async throws {
    let deadline = ContinuousClock.now + .seconds(10)
    while await code({ () throws(RedisError) in _ = try await client.send(ping) }) != nil {
        try #require(ContinuousClock.now < deadline)
    }
}

@Suite(.server) struct RedisClientTests {
    @Test func binaryEmptyAndLargeValuesRoundTrip() async throws {
        let server = try await RedisServer.shared()
        try await withClient(RedisConfiguration(url: server.url)) { client in
            let tag = uniqueName("k")
            let (one, none) = (RedisArgument.string("one{\(tag)}"), RedisArgument.string("none{\(tag)}"))
            let number = RedisArgument.string("number{\(tag)}")
            let all = (0..<1 << 20).map { UInt8(truncatingIfNeeded: $0 &* 31) }
            for value in [[], [0], [13, 10], Array(0...255), all] {
                #expect(try await client.send(RedisCommand("SET", one, .bytes(value))) == .status("OK"))
                #expect(try await client.send(RedisCommand("GET", one)).bytes == value)
            }
            #expect(try await client.send(RedisCommand("GET", none)).isNull)
            #expect(try await client.send(RedisCommand("INCRBY", number, .integer(-7))).integer == -7)
            #expect(try await client.send(RedisCommand("GET", number)).integer == -7)
            let deleted = try await client.send(RedisCommand("DEL", one, none, number))
            #expect(deleted.integer == 2)
        }
        await server.stop()
    }

    @Test func nestedRepliesAreDecoded() async throws {
        let server = try await RedisServer.startAlone()
        try await withClient(RedisConfiguration(url: server.url)) { client in
            let exec = try await client.pipeline([
                RedisCommand("MULTI"), RedisCommand("RPUSH", "l", "a", "b"), RedisCommand("LRANGE", "l", "0", "-1"),
                RedisCommand("EXEC"),
            ])
            #expect(exec.last?.array?.last?.array?.map(\.text) == ["a", "b"])
        }
        await server.stop()
    }

    @Test func tenThousandPipelinedCommandsAreAnsweredInOrder() async throws {
        let server = try await RedisServer.shared()
        try await withClient(RedisConfiguration(url: server.url)) { client in
            let answers = try await client.pipeline((0..<10_000).map { RedisCommand("ECHO", .integer($0)) })
            #expect(answers.map(\.integer) == (0..<10_000).map { $0 })
            try await withThrowingTaskGroup(of: Bool.self) { group in
                for number in 0..<2000 {
                    group.addTask {
                        let answer = try await client.send(RedisCommand("ECHO", .integer(Int64(number))))
                        return answer.integer == Int64(number)
                    }
                }
                for try await isRight in group { #expect(isRight) }
            }
            #expect(try await client.pipeline([]).isEmpty)
        }
        await server.stop()
    }

    @Test func errorRepliesAreReturnedByPipelineAndThrownBySend() async throws {
        let server = try await RedisServer.shared()
        try await withClient(RedisConfiguration(url: server.url)) { client in
            let key = RedisArgument.string(uniqueName("k"))
            let answers = try await client.pipeline([
                RedisCommand("SET", key, "v"), RedisCommand("LPUSH", key, "x"), RedisCommand("GET", key),
                RedisCommand("DEL", key),
            ])
            #expect(answers[1].serverError?.serverPrefix == "WRONGTYPE")
            #expect(answers[2].text == "v")
            #expect(
                await code { () throws(RedisError) in _ = try await client.send(RedisCommand("NONSENSE")) } == .server)
        }
        await server.stop()
    }

    @Test func scriptsAreReloadedAfterAScriptFlush() async throws {
        let server = try await RedisServer.startAlone()
        try await withClient(RedisConfiguration(url: server.url)) { client in
            let add = RedisScript("return redis.call('INCRBY', KEYS[1], ARGV[1])")
            let echo = RedisScript("return ARGV[1]")
            let runs: [RedisInvocation] = (1...50).map { (number: Int64) -> RedisInvocation in
                let argument = RedisArgument.integer(number)
                guard number % 2 == 0 else { return RedisInvocation(echo, keys: [], arguments: [argument]) }
                return RedisInvocation(add, keys: ["sum"], arguments: [argument])
            }
            let first = try await client.evaluate(runs)
            #expect(first.count == 50)
            #expect(first.first?.text == "1")
            #expect(first.last?.integer == 650)
            _ = try await client.pipeline([
                RedisCommand("SCRIPT", "FLUSH"), RedisCommand("SCRIPT", "LOAD", "return ARGV[1]"),
            ])
            let second = try await client.evaluate(runs)
            #expect(second[0].text == "1", "only what was refused ran again")
            #expect(second[49].integer == 1300, "only what was refused ran again")
            let broken = RedisInvocation(RedisScript("this is not Lua"), keys: [], arguments: [])
            #expect(await code { () throws(RedisError) in _ = try await client.evaluate([broken]) } == .server)
            let failing = RedisInvocation(RedisScript("return redis.error_reply('MINE x')"), keys: [], arguments: [])
            #expect(try await client.evaluate([failing, runs[0]]).map(\.text) == [nil, "1"])
            #expect(try await client.evaluate([]).isEmpty)
        }
        await server.stop()
    }

    @Test func aPipelineOnAnEventLoopOfTheGroupCompletesOnIt() async throws {
        let server = try await RedisServer.startAlone()
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 2)
        try await withClient(RedisConfiguration(url: server.url), on: group) { client in
            try await client.connect()
            for loop in group.makeIterator() {
                let stayed = try await loop.flatSubmit {
                    client.pipeline([RedisCommand("ECHO", "a"), RedisCommand("ECHO", "b")], on: loop).map { answers in
                        loop.inEventLoop && answers.map(\.text) == ["a", "b"]
                    }
                }.get()
                #expect(stayed)
            }
            let stranger = MultiThreadedEventLoopGroup.singleton.next()
            #expect(try await client.pipeline([ping], on: stranger).get() == [.status("PONG")])
            #expect(try await client.pipeline([], on: stranger).get().isEmpty)
            let clients = try await client.send(RedisCommand("CLIENT", "LIST")).text ?? ""
            #expect(clients.split(separator: "\n").count == 2, "one connection per loop")
        }
        await server.stop()
        try await group.shutdownGracefully()
    }

    @Test func commandsFailWhileTheServerIsDownAndRecoverAfterARestart() async throws {
        let server = try await RedisServer.startAlone()
        var configuration = try RedisConfiguration(url: server.url)
        configuration.commandDeadline = .seconds(1)
        try await withClient(configuration) { client in
            try await client.connect()
            for _ in 0..<2 {
                await server.kill()
                let started = ContinuousClock.now
                #expect(await code { () throws(RedisError) in _ = try await client.send(ping) } == .connection)
                #expect(ContinuousClock.now - started < .seconds(10))
                try await server.restart()
                try await untilItAnswers(client)
            }
        }
        await server.stop()
    }

    @Test func aRestartIncreasesTheGenerationBeforeTheFirstReply() async throws {
        let server = try await RedisServer.startAlone()
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 2)
        try await withClient(RedisConfiguration(url: server.url), on: group) { client in
            let told = Atomic(0)
            client.onAnotherServer { told.add(1, ordering: .relaxed) }
            try await client.connect()
            #expect(client.generation == 1)
            #expect(told.load(ordering: .relaxed) == 1)
            for round in 1...2 {
                await server.kill()
                try await server.restart()
                for loop in group.makeIterator() {
                    let deadline = ContinuousClock.now + .seconds(10)
                    while true {
                        let generation = client.pipeline([ping], on: loop).map { _ in client.generation }
                        if let seen = try? await generation.get() {
                            #expect(seen == UInt64(round) + 1, "it has grown when the answer is there, and once")
                            break
                        }
                        try #require(ContinuousClock.now < deadline)
                    }
                }
            }
            #expect(told.load(ordering: .relaxed) == 3)
        }
        await server.stop()
        try await group.shutdownGracefully()
    }

    @Test func aConnectionIsReplacedOnceAnotherHasFoundANewServer() async throws {
        let server = try await RedisServer.startAlone()
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        try await withClient(RedisConfiguration(url: server.url), on: group) { client in
            func connection() async throws -> Int64? {
                try await client.send(RedisCommand("CLIENT", "ID")).integer
            }
            let first = try await connection()
            client.known.connected("run_id:another", isFirst: false)
            #expect(client.generation == 2)
            let second = try await connection()
            #expect(second != first, "not asked on the connection that led to the one before")
            #expect(client.generation == 3, "whom the name leads to now")
            #expect(try await connection() == second)
        }
        await server.stop()
        try await group.shutdownGracefully()
    }

    @Test func commandsLostWithTheirConnectionAreNotRetried() async throws {
        let server = try await RedisServer.startAlone()
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        try await withClient(RedisConfiguration(url: server.url), on: group) { client in
            try await client.connect()
            // The server kills our own connection in the middle of the pipeline; the commands after that are lost.
            let lost = await code { () throws(RedisError) in
                _ = try await client.pipeline([
                    RedisCommand("INCR", "n"), RedisCommand("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no"),
                    RedisCommand("INCR", "n"),
                ])
            }
            #expect(lost == .connection)
            try await untilItAnswers(client)
            #expect(try await client.send(RedisCommand("GET", "n")).integer == 1)
        }
        await server.stop()
        try await group.shutdownGracefully()
    }

    @Test func closingTheClientFailsPendingAndLaterCommands() async throws {
        let server = try await RedisServer.startAlone()
        let configuration = try RedisConfiguration(url: server.url)
        let client = RedisClient(configuration, eventLoopGroup: MultiThreadedEventLoopGroup.singleton)
        try await client.connect()
        server.signal(19)  // SIGSTOP: it answers nothing any more
        let loops = Array(MultiThreadedEventLoopGroup.singleton.makeIterator())
        let pending = loops.map { client.pipeline([ping, ping], on: $0) }
        await client.close()
        for future in pending {
            let error = await #expect(throws: RedisError.self) { _ = try await future.get() }
            #expect(error?.code == .closed)
        }
        #expect(await code { () throws(RedisError) in _ = try await client.send(ping) } == .closed)
        await client.close()
        server.signal(18)
        await server.stop()
    }
}
