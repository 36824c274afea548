import Fetch
import NIOCore
import Testing

@testable import HTTPServer

@Suite struct ConnectionLimitsTests {
    func client(_ number: UInt32) -> ClientAddress { ClientAddress(IPAddress(version4: number)) }

    @Test func eachAddressAndAllTogetherHaveALimit() {
        var limits = ConnectionLimits(total: 4, perAddress: 2)
        #expect(limits.admit(self.client(1)) == nil)
        #expect(limits.admit(self.client(1)) == nil)
        #expect(limits.admit(self.client(1)) == .address)
        #expect(limits.admit(self.client(2)) == nil)
        #expect(limits.admit(self.client(3)) == nil)
        #expect(limits.admit(self.client(4)) == .total)
        limits.leave(self.client(1))
        #expect(limits.admit(self.client(1)) == nil)
        #expect(limits.count == 4)
    }

    @Test(arguments: [
        // Different addresses of one network: a /24 of IPv4, a /48 of IPv6.
        ((0..<40).map { "192.0.2.\($0)" }, "192.0.3.1"),
        ((0..<40).map { "2001:db8:1:\($0)::1" }, "2001:db8:2::1"),
    ])
    func aNetworkHasALimit(addresses: [String], stranger: String) throws {
        var limits = ConnectionLimits(total: 1000, perAddress: 2)
        let clients = try addresses.map { ClientAddress(try #require(IPAddress($0))) }
        for client in clients.prefix(8) { #expect(limits.admit(client) == nil) }
        for client in clients { #expect(limits.admit(client) == .network) }
        #expect(limits.admit(ClientAddress(try #require(IPAddress(stranger)))) == nil)
        #expect(limits.fullness(for: clients[39]) == 1)
        limits.leave(clients[0])
        #expect(limits.fullness(for: clients[39]) == 7.0 / 8)
        #expect(limits.admit(clients[39]) == nil)
        #expect(limits.fullness(for: nil) == 9.0 / 1000)
    }

    @Test func aProxyHasNoLimitOfItsOwn() {
        var limits = ConnectionLimits(total: 3, perAddress: 1)
        for _ in 0..<3 { #expect(limits.admit(nil) == nil) }
        #expect(limits.admit(nil) == .total)
        limits.leave(nil)
        #expect(limits.admit(self.client(1)) == nil)
    }

    @Test func refusedAndDepartedClientsAreForgotten() {
        var limits = ConnectionLimits(total: 10, perAddress: 1)
        for number in 0..<1000 where limits.admit(self.client(UInt32(number) << 8)) == nil {
            #expect(limits.addressCount == limits.count)
        }
        #expect(limits.addressCount == 10)
        for number in 0..<10 { limits.leave(self.client(UInt32(number) << 8)) }
        #expect(limits.addressCount == 0)
        #expect(limits.count == 0)
    }

    @Test func theConnectionLimitFitsTheOpenFileLimit() {
        #expect(OpenFiles.connections(wished: 20_000, files: 1_000_000) == 20_000)
        #expect(OpenFiles.connections(wished: 20_000, files: 1024) == 1024 - OpenFiles.reserve)
        #expect(OpenFiles.connections(wished: 20_000, files: 10) == 1)
        #expect(OpenFiles.connections(wished: 20_000, files: nil) == 20_000)
        #expect((OpenFiles.raiseLimit() ?? 0) > 0)
    }
}

@Suite struct ForwardedForTests {
    func peer(_ address: String, trusting proxies: String) throws -> Peer {
        try #require(TrustedProxies(proxies)).peer(try SocketAddress(ipAddress: address, port: 1))
    }

    func client(_ text: String) throws -> ClientAddress { ClientAddress(try #require(IPAddress(text))) }

    @Test func anUntrustedPeerIsTheClientDespiteForwardedFor() throws {
        let peer = try self.peer("192.0.2.1", trusting: "10.0.0.0/8")
        #expect(!peer.isTrusted)
        #expect(try peer.client(forwardedFor: ["198.51.100.7"]) == self.client("192.0.2.1"))
    }

    @Test(arguments: [
        (["198.51.100.7"], "198.51.100.7"), (["1.1.1.1, 198.51.100.7"], "198.51.100.7"),
        (["1.1.1.1", "198.51.100.7"], "198.51.100.7"), (["198.51.100.7, 10.9.9.9"], "198.51.100.7"),
        (["198.51.100.7", "10.9.9.9,fd00::5"], "198.51.100.7"), (["\t198.51.100.7 \t, 10.1.1.1"], "198.51.100.7"),
        (["198.51.100.7:4711"], "198.51.100.7"), (["[2001:db8::1]:4711"], "2001:db8::1"),
        (["2001:db8::1"], "2001:db8::1"),
        (["::ffff:198.51.100.7"], "198.51.100.7"), (["10.2.2.2, 10.3.3.3"], "10.2.2.2"), (["10.2.2.2"], "10.2.2.2"),
        // Anything to the left of the client's address is the client's invention, and is not read.
        (["junk, 198.51.100.7"], "198.51.100.7"), (["junk", "198.51.100.7, 10.1.1.1"], "198.51.100.7"),
        ([",,,198.51.100.7"], "198.51.100.7"), (["\u{0}%&, 198.51.100.7"], "198.51.100.7"),
    ])
    func theRightmostAddressThatIsNoProxyIsTheClient(values: [String], expected: String) throws {
        let peer = try self.peer("10.0.0.1", trusting: "10.0.0.0/8, fd00::/8")
        #expect(try peer.client(forwardedFor: values) == self.client(expected))
    }

    @Test(arguments: [
        [], [""], [" "], [","], ["198.51.100.7,"], ["198.51.100.7, "], ["junk"], ["198.51.100.7, junk"], ["unknown"],
        ["198.51.100.7, junk, 10.1.1.1"], ["198.51.100.7:"], ["198.51.100.7:x"], ["198.51.100.7:123456"],
        ["[198.51.100.7]"],
        ["[2001:db8::1"], ["2001:db8::1]"], ["[2001:db8::1]x"], ["[]:1"], ["198.51.100.7 10.1.1.1"],
        ["\"198.51.100.7\""],
        ["198.51.100.7", ""], [String(repeating: "10.1.1.1,", count: 100) + "10.1.1.1"],
    ])
    func aHeaderThatCannotBeReadLeavesTheProxy(values: [String]) throws {
        let peer = try self.peer("10.0.0.1", trusting: "10.0.0.0/8")
        #expect(try peer.client(forwardedFor: values) == self.client("10.0.0.1"))
    }

    @Test func networksAreReadAndMatched() throws {
        let proxies = try #require(
            TrustedProxies("192.0.2.1,10.0.0.0/8 , 2001:db8::/32,::ffff:198.51.100.0/120,172.16.5.9/12"))
        for inside in [
            "192.0.2.1", "10.255.0.1", "2001:db8:ffff::1", "198.51.100.255", "172.31.0.1", "::ffff:10.0.0.1",
        ] {
            #expect(proxies.contains(try #require(IPAddress(inside))), "\(inside)")
        }
        for outside in ["192.0.2.2", "11.0.0.0", "2001:db9::", "198.51.101.0", "172.32.0.1", "::1"] {
            #expect(!proxies.contains(try #require(IPAddress(outside))), "\(outside)")
        }
        #expect(try #require(TrustedProxies("0.0.0.0/0")).contains(try #require(IPAddress("255.1.1.1"))))
        #expect(try !#require(TrustedProxies("0.0.0.0/0")).contains(try #require(IPAddress("2001:db8::1"))))
        #expect(try #require(TrustedProxies("::/0")).contains(try #require(IPAddress("2001:db8::1"))))
        for junk in [
            "", ",", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/", "::/129", "x", "10.0.0.0/8/8", "10.0.0.1,",
            "10.0.0.0/+8", "1 0.0.0.1",
        ] {
            #expect(TrustedProxies(junk) == nil, "\(junk)")
        }
    }
}

@Suite struct FileStampsTests {
    @Test func aFileChangeIsDueOnceTwoLooksAgree() throws {
        let stamps = try ["/", "/proc", "/tmp"].map { try #require(FileStamp(path: $0)) }
        var files = FileStamps(taken: [stamps[0], stamps[1]])
        let looks: [(stamps: [FileStamp?], isAsked: Bool, isDue: Bool)] = [
            ([stamps[0], stamps[1]], false, false),
            // Changed once, then changed again.
            ([stamps[2], stamps[1]], false, false), ([stamps[2], stamps[0]], false, false),
            ([stamps[2], stamps[0]], false, true), ([stamps[2], stamps[0]], false, false),
            // The file is missing for a moment.
            ([nil, stamps[0]], false, false), ([stamps[2], stamps[0]], false, false),
            ([stamps[2], stamps[0]], true, true),
        ]
        for (number, look) in looks.enumerated() {
            let isDue = files.isDue(look.stamps, isAsked: look.isAsked)
            #expect(isDue == look.isDue, "look \(number)")
        }
    }
}
