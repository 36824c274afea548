import NIOCore
import Testing

@testable import Redis

func node(_ number: Int) -> NodeAddress { NodeAddress(host: "10.0.0.\(number)", port: 7000) }

/// Returns a map of three masters with a third of the slots each.
func threeMasters() -> SlotMap {
    var map = SlotMap()
    for slot in 0..<HashSlot.count { map.move(slot, to: node(slot / 5462)) }
    return map
}

@Suite struct RoutingTests {
    @Test(arguments: [
        ("123456789", 0x31C3), ("somekey", 11058), ("foo{hash_tag}", 2515), ("bar{hash_tag}", 2515), ("", 0),
        ("foo", 12182), ("{foo}", 12182), ("x{foo}{bar}", 12182),
    ])
    func aSlotIsWhatTheSpecificationSays(key: String, slot: Int) {
        #expect(HashSlot.of(key.utf8) == slot % HashSlot.count)
        #expect(HashSlot.crc("123456789".utf8) == 0x31C3)
    }

    @Test func anEmptyOrUnclosedHashTagIsIgnored() {
        #expect(HashSlot.of("foo{}{bar}".utf8) == Int(HashSlot.crc("foo{}{bar}".utf8)) % HashSlot.count)
        #expect(HashSlot.of("foo{bar".utf8) == Int(HashSlot.crc("foo{bar".utf8)) % HashSlot.count)
        #expect(HashSlot.of("foo{{bar}}zap".utf8) == HashSlot.of("{bar".utf8))
        #expect(HashSlot.of("}{bar}".utf8) == HashSlot.of("bar".utf8))
    }

    @Test func commandsAreRoutedByTheirKeysOrNames() throws {
        let slot = CommandRoute.slot(HashSlot.of("k".utf8))
        for command in [
            RedisCommand("GET", "k"), RedisCommand("BZPOPMIN", "k", "1"), RedisCommand("hmget", .bytes([0x6B]), "k2"),
            RedisCommand("DEL", "k", "{k}2"),
            RedisCommand("EVALSHA", "abc", .integer(2), "k", .buffer(ByteBuffer(string: "x{k}")), "other"),
            RedisCommand("SCRIPT", "LOAD", "return 1", .place(.key("k"))),
        ] { #expect(try CommandRoute(command) == slot, "\(command)") }
        #expect(try CommandRoute(RedisCommand("INCR", .integer(7))) == .slot(HashSlot.of("7".utf8)))
        #expect(try CommandRoute(RedisCommand("EVALSHA", "abc", "0", "k")) == .anyMaster)
        #expect(try CommandRoute(RedisCommand("PING")) == .anyMaster)
        #expect(try CommandRoute(RedisCommand("TIME")) == .everyMaster(.lowestTime))
        let place = RedisArgument.place(.master(RedisMaster(node(1))))
        #expect(try CommandRoute(RedisCommand("SCAN", "0", place)) == .node(node(1)))
    }

    @Test(arguments: [
        RedisCommand("GET"), RedisCommand("SCAN", "0"), RedisCommand("DEL", "a", "b"), RedisCommand("MULTI"),
        RedisCommand("EVALSHA", "abc", "2", "a", "b"), RedisCommand("EVALSHA", "abc", "x", "a"),
        RedisCommand("EVALSHA", "abc", "9", "a"), RedisCommand("EVALSHA", "abc"), RedisCommand("EVAL", "x", "-1"),
        RedisCommand("GET", .encoded(RedisEncodedArguments(["a"]))), RedisCommand("NONSENSE", "k"),
        RedisCommand(.encoded(RedisEncodedArguments(["GET", "a"]))), RedisCommand(.bytes([0xFF]), "k"),
    ])
    func aCommandThatNoNodeCanServeIsRefused(command: RedisCommand) {
        do {
            _ = try CommandRoute(command)
            Issue.record("\(command) has a route")
        } catch {
            #expect(error.code == .unroutable)
            #expect(!error.isRetriable)
        }
    }

    @Test func theSlotMapIsParsedFromTheClusterSlotsReply() throws {
        func entry(_ host: RedisValue, _ port: Int64) -> RedisValue {
            .array([host, .integer(port), .string(ByteBuffer(string: "id")), .array([])])
        }
        let name = { RedisValue.string(ByteBuffer(string: $0)) }
        let asked = NodeAddress(host: "asked", port: 1)
        let map = try SlotMap(
            .array([
                .array([.integer(0), .integer(5), entry(name("a"), 1), entry(name("r"), 2)]),
                .array([.integer(6), .integer(16383), entry(name(""), 3)]),
                .array([.integer(7), .integer(7), entry(.null, 4)]),
            ]), asked: asked)
        #expect(map.master(of: 5) == NodeAddress(host: "a", port: 1))
        #expect(map.master(of: 6) == NodeAddress(host: "asked", port: 3), "an empty host is the one we asked")
        #expect(map.master(of: 7) == NodeAddress(host: "asked", port: 4))
        #expect(map.replicas == [NodeAddress(host: "r", port: 2)])
        #expect(map.master(of: 16384) == nil)
        #expect(map.master(of: -1) == nil)
        for bad in [
            RedisValue.null, .array([]), .error("ERR no cluster"), .array([.null]),
            .array([.array([.integer(0), .integer(16384), entry(name("a"), 1)])]),
            .array([.array([.integer(5), .integer(4), entry(name("a"), 1)])]),
            .array([.array([.integer(-1), .integer(4), entry(name("a"), 1)])]),
            .array([.array([.integer(0), .integer(4), entry(name("a"), 0)])]),
            .array([.array([.integer(0), .integer(4), entry(.integer(1), 1)])]),
            .array([.array([.integer(0), .integer(4)])]),
        ] { #expect(throws: RedisError.self) { _ = try SlotMap(bad, asked: asked) } }
    }

    @Test func eachAnchorHashesToASlotOfItsMaster() throws {
        var map = threeMasters()
        map.move(77, to: node(9))
        let topology = RedisTopology(map)
        #expect(topology.masters.count == 4)
        #expect(topology.hashTags.count == 4)
        for (master, hashTag) in zip(topology.masters, topology.hashTags) {
            #expect(map.master(of: HashSlot.of("waybill:epoch:{\(hashTag)}".utf8)) == master.address)
        }
        #expect(topology.hashTags.filter { (Int($0) ?? 1024) < 1024 }.count >= 3)
        let key = "waybill:1:order:{a/b}"
        #expect(topology.master(of: key) == topology.master(of: "{\(topology.hashTag(of: key) ?? "")}"))
        #expect(RedisTopology().hashTags.isEmpty)
        #expect(RedisTopology().hashTag(of: key) == nil)
        #expect(topology.slots != RedisTopology(threeMasters()).slots)
    }

    @Test func redirectionsAreParsedFromErrorReplies() {
        let asked = NodeAddress(host: "asked", port: 1)
        let verdict = { Redirection(.error($0), asked: asked) }
        #expect(verdict("MOVED 3999 h:6381") == .moved(slot: 3999, to: NodeAddress(host: "h", port: 6381)))
        #expect(verdict("MOVED 3999 ::1:6381") == .moved(slot: 3999, to: NodeAddress(host: "::1", port: 6381)))
        #expect(verdict("ASK 3999 :6381") == .ask(NodeAddress(host: "asked", port: 6381)))
        #expect(verdict("ASK 3999 ?:6381") == .ask(NodeAddress(host: "asked", port: 6381)))
        for text in ["TRYAGAIN x", "CLUSTERDOWN y", "LOADING z"] { #expect(verdict(text) == .later) }
        for text in [
            "MOVED", "MOVED x h:1", "MOVED 99999 h:1", "MOVED 1 h", "ASK 1 h:0", "ASK 1 h:x", "ERR MOVED", "",
        ] {
            #expect(verdict(text) == .answer, "\(text)")
        }
        #expect(Redirection(.string(ByteBuffer(string: "MOVED 1 h:1")), asked: asked) == .answer)
    }
}
