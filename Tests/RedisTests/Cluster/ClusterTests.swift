import NIOCore
import NIOPosix
import TestKit
import TestTraits
import Testing

@testable import Redis

/// Tests on real clusters, one at a time because each is several processes.
@Suite(.server, .serialized, .timeLimit(.minutes(2))) struct ClusterTests {
    private func configuration(_ url: String) throws -> RedisConfiguration {
        var configuration = try RedisConfiguration(url: url)
        configuration.commandDeadline = .seconds(5)
        return configuration
    }

    /// Returns the number of times that the masters answered with this error.
    private func count(_ error: String, in cluster: RedisCluster) async throws -> Int {
        var sum = 0
        for master in cluster.masters {
            let text = try await master.command("info", "errorstats")
            for line in text.split(whereSeparator: \.isNewline) where line.hasPrefix("errorstat_\(error):count=") {
                sum += Int(line.split(separator: "=")[1]) ?? 0
            }
        }
        return sum
    }

    @Test func commandsAreRoutedToTheMastersOfTheirKeys() async throws {
        let cluster = try await RedisCluster.start()
        for url in [cluster.url, cluster.seedsURL] {
            try await withClient(self.configuration(url)) { client in
                let keys = (0..<500).map { "key-\($0)" }
                let set = try await client.pipeline(keys.map { RedisCommand("SET", .string($0), .string($0)) })
                #expect(set.allSatisfy { $0 == .status("OK") })
                let got = try await client.pipeline(keys.map { RedisCommand("GET", .string($0)) })
                #expect(got.map(\.text) == keys)
                #expect(try await client.send(RedisCommand("DBSIZE")).integer == 500)
                let loop = MultiThreadedEventLoopGroup.singleton.next()
                #expect(try await client.pipeline([RedisCommand("GET", "key-7")], on: loop).get()[0].text == "key-7")
                #expect(
                    await code { () throws(RedisError) in _ = try await client.send(RedisCommand("DEL", "a", "b")) }
                        == .unroutable)
                let hashTags = try await client.hashTags()
                #expect(hashTags.count == 3)
                for key in keys[..<50] {
                    let hashTag = try #require(try await client.hashTag(of: key))
                    let topology = try await client.topology()
                    #expect(topology.master(of: key) == topology.master(of: "waybill:epoch:{\(hashTag)}"))
                }
                _ = try await client.send(RedisCommand("FLUSHALL"))
            }
        }
        #expect(try await self.count("MOVED", in: cluster) == 0, "the map was known before the first command")
        try await self.scriptsAreLoadedWhereTheyRun(cluster)
        try await self.aDatabaseIsRefused(cluster)
        await cluster.stop()
    }

    private func scriptsAreLoadedWhereTheyRun(_ cluster: RedisCluster) async throws {
        try await withClient(self.configuration(cluster.url)) { client in
            let add = RedisScript("return redis.call('INCRBY', KEYS[1], ARGV[1])")
            let runs = (0..<100).map { RedisInvocation(add, keys: ["n-\($0)"], arguments: [.integer(2)]) }
            #expect(try await client.evaluate(runs).allSatisfy { $0.integer == 2 })
            _ = try await cluster.masters[1].command("script", "flush")
            #expect(try await client.evaluate(runs).allSatisfy { $0.integer == 4 }, "only what was refused ran again")
        }
    }

    private func aDatabaseIsRefused(_ cluster: RedisCluster) async throws {
        var configuration = try RedisConfiguration(url: cluster.url + "/1")
        configuration.commandDeadline = .milliseconds(500)
        try await withClient(configuration) { client in
            let error = await #expect(throws: RedisError.self) { _ = try await client.send(ping) }
            #expect(error?.message.contains("database 0 only") == true, "\(error?.message ?? "")")
        }
    }

    @Test func eachCommandIsExecutedExactlyOnceWhileASlotMoves() async throws {
        let cluster = try await RedisCluster.start()
        let tag = (0...).lazy.map { "t\($0)" }.first { HashSlot.of($0.utf8) < 5462 } ?? ""
        let keys = (0..<60).map { "n-\($0){\(tag)}" } + (0..<20).map { "other-\($0)" }
        try await withClient(self.configuration(cluster.url)) { client in
            let end = Flag()
            let counts = try await withThrowingTaskGroup(of: Int64.self) { group in
                for worker in 0..<4 {
                    group.addTask {
                        let add = RedisScript("return redis.call('INCR', KEYS[1])")
                        var rounds: Int64 = 0
                        while !end.isSet {
                            let answers =
                                worker % 2 == 0
                                ? try await client.pipeline(keys.map { RedisCommand("INCR", .string($0)) })
                                : try await client.evaluate(
                                    keys.map { RedisInvocation(add, keys: [$0], arguments: []) })
                            #expect(answers.allSatisfy { $0.serverError == nil })
                            rounds += 1
                        }
                        return rounds
                    }
                }
                for (source, target) in [(0, 2), (2, 1)] {
                    try await cluster.move(
                        slot: HashSlot.of(tag.utf8), from: cluster.masters[source], to: cluster.masters[target])
                }
                end.set()
                return try await group.reduce(into: []) { $0.append($1) }
            }
            let sum = counts.reduce(0, +)
            let values = try await client.pipeline(keys.map { RedisCommand("GET", .string($0)) })
            #expect(values.map(\.integer) == keys.map { _ in sum })
        }
        #expect(try await self.count("ASK", in: cluster) > 0)
        #expect(try await self.count("MOVED", in: cluster) > 0)
        await cluster.stop()
    }

    @Test func aMovedSlotIsFollowedOverTLS() async throws {
        let cluster = try await RedisCluster.start(isEncrypted: true)
        let certificate = try #require(cluster.certificate)
        var configuration = try RedisConfiguration(url: "rediss://\(cluster.tlsAddress)", caFile: certificate.file)
        configuration.commandDeadline = .seconds(5)
        // One loop: another one would learn the slots after the move and would not be redirected.
        try await withClient(configuration, on: MultiThreadedEventLoopGroup.singleton.next()) { client in
            let keys = (0..<50).map { "key-\($0)" }
            let set = try await client.pipeline(keys.map { RedisCommand("SET", .string($0), .string($0)) })
            #expect(set.allSatisfy { $0 == .status("OK") })
            let free = Set(0..<5462).subtracting(keys.map { HashSlot.of($0.utf8) })
            let key = try #require((0...).lazy.map { "k\($0)" }.first { free.contains(HashSlot.of($0.utf8)) })
            try await cluster.move(slot: HashSlot.of(key.utf8), from: cluster.masters[0], to: cluster.masters[2])
            #expect(try await client.send(RedisCommand("SET", .string(key), "there")) == .status("OK"))
            #expect(try await cluster.masters[2].command("get", key) == "there")
        }
        #expect(try await self.count("MOVED", in: cluster) > 0)
        await cluster.stop()
    }

    /// While its first slot is being moved to a master, redirections lead there and no map names it.
    @Test func scriptsRunOnAMasterImportingItsFirstSlot() async throws {
        let cluster = try await RedisCluster.start()
        let script = RedisScript("return redis.call('INCRBY', KEYS[1], ARGV[1])")
        try await withClient(self.configuration(cluster.url)) { client in
            let run = RedisInvocation(script, keys: ["key"], arguments: ["2"])
            #expect(try await client.evaluate([run]) == [.integer(2)])
            let (slot, target) = (HashSlot.of("key".utf8), try await cluster.addMaster())
            let source = cluster.masters[slot / 5462]
            let names = (try await source.command("cluster", "myid"), try await target.command("cluster", "myid"))
            try await target.command("cluster", "setslot", "\(slot)", "importing", names.0)
            try await source.command("cluster", "setslot", "\(slot)", "migrating", names.1)
            try await source.command("migrate", "127.0.0.1", "\(target.port)", "key", "0", "5000")
            #expect(try await client.evaluate([run, run]) == [.integer(4), .integer(6)])
            #expect(try await target.command("info", "commandstats").contains("cmdstat_asking"))
            await target.stop()
        }
        await cluster.stop()
    }

    /// An epoch that was read before the order proves nothing about it.
    @Test func aCheckedReadGetsTryAgainOnceItsSlotHasMoved() async throws {
        let cluster = try await RedisCluster.start()
        try await withClient(self.configuration(cluster.url)) { client in
            // An event loop whose first command is the read after the move would ask for the map only then.
            try await client.connect()
            let hashTags = try await client.hashTags()
            let checks = hashTags.map { RedisCommand("GET", .string("check{\($0)}")) }
            let key = (0...).lazy.map { "k\($0)" }.first { HashSlot.of($0.utf8) < 5462 } ?? ""
            let tags = Set(hashTags.map { HashSlot.of($0.utf8) })
            try #require(!tags.contains(HashSlot.of(key.utf8)))
            _ = try await client.send(RedisCommand("SET", .string(key), "there"))
            func read() async throws -> RedisValue {
                try await client.pipeline([RedisCommand("GET", .string(key))], checkedBy: checks)[0]
            }
            #expect(try await read().text == "there")
            let (source, target) = (cluster.masters[0], cluster.masters[1])
            try await cluster.move(slot: HashSlot.of(key.utf8), from: source, to: target) { _ in
                let found = try await read()
                #expect(found.text == "there")
            }
            let first = try await read()
            #expect(first.serverError?.serverPrefix == "TRYAGAIN", "the first one is led elsewhere: \(first)")
            let deadline = ContinuousClock.now + .seconds(20)
            while try await read().text != "there" { try #require(ContinuousClock.now < deadline) }
        }
        await cluster.stop()
    }

    @Test func clusterFailoversAreFollowedAndIncreaseTheGeneration() async throws {
        let cluster = try await RedisCluster.start(withReplicas: true)
        try await withClient(self.configuration(cluster.seedsURL)) { client in
            // A key of the first master.
            let key = RedisArgument.string((0...).lazy.map { "k\($0)" }.first { HashSlot.of($0.utf8) < 5462 } ?? "")
            let other = RedisArgument.string((0...).lazy.map { "k\($0)" }.first { HashSlot.of($0.utf8) > 12000 } ?? "")
            for number in 1...100 { #expect(try await client.send(RedisCommand("INCR", key)).integer == Int64(number)) }
            let before = client.generation
            // On request, master and replica switch roles and lose nothing.
            try await cluster.replicas[0].command("cluster", "failover")
            var next: Int64 = 101
            let deadline = ContinuousClock.now + .seconds(20)
            while client.generation == before {
                #expect(try await client.send(RedisCommand("INCR", key)).integer == next)
                next += 1
                try #require(ContinuousClock.now < deadline)
            }
            #expect(try await client.send(RedisCommand("INCR", key)).integer == next)
            // After the new master is killed, the old one replaces it; the other masters answer throughout.
            try await cluster.masters[0].until("master_link_status:up", in: "info", "replication")
            try await cluster.masters[0].until("role:slave", in: "info", "replication")
            let between = client.generation
            await cluster.replicas[0].kill()
            // An election without a majority in time, as on a busy machine, is repeated only after four seconds.
            let elected = ContinuousClock.now + .seconds(40)
            while await code({ () throws(RedisError) in _ = try await client.send(RedisCommand("INCR", key)) }) != nil {
                try #require(ContinuousClock.now < elected)
            }
            #expect(client.generation > between)
            #expect(try await client.send(RedisCommand("GET", key)).integer ?? 0 > next)
            _ = try await client.send(RedisCommand("INCR", other))
        }
        await cluster.stop()
    }
}
