import NIOCore
import Testing

@testable import Redis

@Suite struct LinkPreparationTests {
    private static func text(_ text: String) -> RedisValue { .string(ByteBuffer(string: text)) }
    private static let master = Self.text(
        "# Server\r\nrun_id:abc\r\n# Replication\r\nrole:master\r\nmaster_replid:x\r\n")
    private static let replica = Self.text("run_id:abc\r\nrole:slave\r\n")
    private static let slots = RedisValue.array([])
    private static let noCluster = RedisValue.error("ERR This instance has cluster support disabled")

    private func end(_ preparation: LinkPreparation, _ replies: RedisValue...) -> LinkPreparation.Verdict {
        var preparation = preparation
        for reply in replies.dropLast() { #expect(preparation.received(reply) == .more) }
        return preparation.received(replies.last ?? .null)
    }

    @Test func preparationIdentifiesTheServer() throws {
        let server = try RedisConfiguration(url: "redis://:p@h/3").preparation(for: .server)
        #expect(server.steps == [.authenticate, .ping, .information, .slots, .select])
        var preparation = server
        for reply in [.status("OK"), .status("PONG"), Self.master, Self.noCluster] {
            #expect(preparation.received(reply) == .more)
        }
        #expect(preparation.received(.status("OK")) == .ready)
        #expect(preparation.findings.serverIdentifier == "run_id:abc master_replid:x ")
        #expect(preparation.findings.slots == nil)
        #expect(!preparation.findings.isReplica)
        guard case .refused = preparation.received(.status("OK")) else {
            Issue.record("one answer too many")
            return
        }
    }

    @Test(arguments: ["6.2.14", "5.0.7", "6.9"]) func aServerOlderThanVersion7IsRefused(_ version: String) throws {
        for purpose in [LinkPreparation.Purpose.server, .member] {
            let old = Self.text("redis_version:\(version)\r\nrun_id:abc\r\nrole:master\r\n")
            let link = try RedisConfiguration(url: "redis://h").preparation(for: purpose)
            guard case .refused(let error) = self.end(link, .status("PONG"), old) else {
                Issue.record("it is used")
                return
            }
            #expect(error.code == .unsupported)
            #expect(error.message.contains("Redis \(version), version 7.0 or later is needed"))
        }
    }

    @Test(arguments: ["7.0.0", "7.2.4", "10.1", "unknown"]) func aSupportedOrUnknownVersionIsAccepted(_ version: String)
        throws
    {
        let link = try RedisConfiguration(url: "redis://h").preparation(for: .member)
        let new = Self.text("redis_version:\(version)\r\nrun_id:abc\r\n")
        #expect(self.end(link, .status("PONG"), new) == .ready)
    }

    @Test func aReplicaIsRefusedOutsideACluster() throws {
        let server = try RedisConfiguration(url: "redis://h").preparation(for: .server)
        guard case .refused(let error) = self.end(server, .status("PONG"), Self.replica, Self.noCluster) else {
            Issue.record("it is used")
            return
        }
        #expect(error.message.contains("replica"))
        // In a cluster the slot map names the node to write to.
        #expect(self.end(server, .status("PONG"), Self.replica, Self.slots) == .ready)
        let member = try RedisConfiguration(url: "redis://h").preparation(for: .member)
        #expect(self.end(member, .status("PONG"), Self.replica) == .ready)
    }

    @Test func preparationToleratesOnlyMissingPermissions() throws {
        let server = try RedisConfiguration(url: "redis://h").preparation(for: .server)
        let no = RedisValue.error("NOPERM this user has no permissions")
        #expect(self.end(server, no, no, no) == .ready)
        for refusal in ["NOAUTH Authentication required.", "LOADING Redis is loading", "ERR max clients"] {
            var preparation = server
            guard case .refused(let error) = preparation.received(.error(refusal)) else {
                Issue.record("\(refusal) is taken")
                continue
            }
            #expect(error.message.contains(refusal))
        }
        var preparation = server
        _ = preparation.received(.status("PONG"))
        guard case .refused = preparation.received(.integer(1)) else {
            Issue.record("a number is no information")
            return
        }
    }

    @Test func aSentinelWithoutAPasswordIsAccepted() throws {
        let configuration = try RedisConfiguration(url: "redis+sentinel://:p@h/m/2")
        let sentinel = configuration.preparation(for: .sentinel)
        #expect(self.end(sentinel, .error("ERR AUTH without any password"), .status("PONG")) == .ready)
        #expect(configuration.preparation(for: .server).steps == [.authenticate, .ping, .information, .select])
    }

    @Test func aNonzeroDatabaseIsRefusedOnACluster() throws {
        let server = try RedisConfiguration(url: "redis://h/1").preparation(for: .server)
        let end = self.end(server, .status("PONG"), Self.master, Self.slots, .error("ERR SELECT"))
        guard case .refused(let error) = end
        else {
            Issue.record("it is used")
            return
        }
        #expect(error.message.contains("database 0 only"))
    }
}

@Suite struct KnownServersTests {
    @Test func theGenerationIncreasesWithEachNewServer() {
        let known = KnownServers()
        #expect(known.topology == nil)
        #expect(known.generation == 0)
        known.connected("a", isFirst: true)
        #expect(known.topology?.masters.isEmpty == true)
        #expect(known.generation == 1)
        known.connected("a", isFirst: true)
        known.connected("a", isFirst: false)
        #expect(known.generation == 1, "the same server")
        known.connected("b", isFirst: false)
        known.connected("b", isFirst: false)
        #expect(known.generation == 2)
    }

    @Test func reconnectingToAnUnidentifiedServerIncreasesTheGeneration() {
        let known = KnownServers()
        known.connected(nil, isFirst: true)
        known.connected(nil, isFirst: true)
        #expect(known.generation == 1)
        known.connected(nil, isFirst: false)
        #expect(known.generation == 2)
    }

    @Test func aNewOrRestartedClusterMasterIncreasesTheGeneration() {
        let known = KnownServers()
        known.learned(threeMasters())
        for number in 0..<3 { known.connected(to: node(number), "run-\(number)", isFirst: true) }
        known.learned(threeMasters())
        #expect(known.generation == 1)
        #expect(known.topology?.masters.count == 3)
        known.connected(to: node(7), "replica", isFirst: true)
        #expect(known.generation == 1, "it answers for no key")
        known.connected(to: node(0), "restarted", isFirst: false)
        #expect(known.generation == 2)
        var map = threeMasters()
        for slot in 0..<5462 { map.move(slot, to: node(7)) }
        known.learned(map)
        #expect(known.generation == 3)
        known.learned(threeMasters())
        #expect(known.generation == 4, "it was away and may have lost something")
    }

    @Test func aRedirectionToAnUnknownNodeMeansANewServer() {
        let known = KnownServers()
        known.learned(threeMasters())
        known.redirected(to: node(1))
        #expect(known.generation == 1, "a slot that moved between masters")
        known.redirected(to: node(7))
        known.redirected(to: node(7))
        #expect(known.generation == 2, "before any map says so")
        known.connected(to: node(7), "promoted", isFirst: true)
        var map = threeMasters()
        for slot in 0..<5462 { map.move(slot, to: node(7)) }
        known.learned(map)
        #expect(known.generation == 2, "it is known already")
    }
}
