import NIOCore
import NIOPosix
import TestKit
import TestTraits
import Testing

@testable import Redis

@Suite(.serialized, .timeLimit(.minutes(2))) struct SentinelTests {
    /// Tries until it succeeds.
    private func untilItWrites(_ client: RedisClient, _ key: RedisArgument) async throws {
        let deadline = ContinuousClock.now + .seconds(30)
        while await code({ () throws(RedisError) in _ = try await client.send(RedisCommand("INCR", key)) }) != nil {
            try #require(ContinuousClock.now < deadline)
        }
    }

    @Test(.server) func theClientFollowsASentinelFailover() async throws {
        let sentinel = try await RedisSentinel.start()
        try await withClient(RedisConfiguration(url: sentinel.url + "/2")) { client in
            try await client.connect()
            _ = try await client.send(RedisCommand("SET", "n", "1"))
            #expect(try await client.hashTags().isEmpty)
            let generation = client.generation
            #expect(generation == 1)
            await sentinel.master.kill()
            try await self.untilItWrites(client, "n")
            #expect(client.generation == generation + 1, "another server, which may be behind")
            #expect(try await client.send(RedisCommand("CLIENT", "INFO")).text?.contains(" db=2 ") == true)
        }
        await sentinel.stop()
    }

    @Test func unreachableSentinelsCauseAConnectionErrorNamingTheMaster() async throws {
        let ports = [try ReservedPort(), try ReservedPort()]
        defer { for port in ports { port.release() } }

        let url = "redis+sentinel://127.0.0.1:\(ports[0].number),127.0.0.1:\(ports[1].number)/the-master"
        var configuration = try RedisConfiguration(url: url)
        configuration.commandDeadline = .milliseconds(500)
        try await withClient(configuration) { client in
            let error = await #expect(throws: RedisError.self) { _ = try await client.send(ping) }
            #expect(error?.code == .connection)
            #expect(error?.isRetriable == true)
            #expect(error?.message.contains("the-master") == true, "\(error?.message ?? "")")
            #expect(error?.message.contains("refused") == true, "\(error?.message ?? "")")
        }
    }

    /// Simulates a managed endpoint whose name leads to the old master for a while.
    @Test(.server) func aServerIsNotUsedWhileItIsAReplica() async throws {
        let master = try await RedisServer.startAlone()
        let server = try await RedisServer.startAlone()
        var configuration = try RedisConfiguration(url: server.url)
        configuration.commandDeadline = .milliseconds(500)
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        try await withClient(configuration, on: group) { client in
            _ = try await client.send(RedisCommand("SET", "n", "1"))
            try await server.command("replicaof", "127.0.0.1", "\(master.port)")
            let write = RedisCommand("INCR", "n")
            let first = await #expect(throws: RedisError.self) { _ = try await client.send(write) }
            #expect(first?.isRetriable == true)
            let second = await #expect(throws: RedisError.self) { _ = try await client.send(write) }
            #expect(second?.message.contains("replica") == true, "it is not even read from: \(second?.message ?? "")")
            #expect(client.generation == 1)
            try await server.command("replicaof", "no", "one")
            try await self.untilItWrites(client, "n")
            #expect(client.generation == 2, "it may have taken what the other one had")
        }
        try await group.shutdownGracefully()
        await server.stop()
        await master.stop()
    }
}
