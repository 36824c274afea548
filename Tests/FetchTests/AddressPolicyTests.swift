import Testing

@testable import Fetch

@Suite struct AddressPolicyTests {
    @Test(arguments: [
        "1.1.1.1", "8.8.8.8", "93.184.216.34", "100.63.255.255", "100.128.0.0", "172.15.0.1", "172.32.0.1", "192.0.1.1",
        "198.17.0.1", "198.20.0.1", "223.255.255.255", "11.0.0.1", "126.0.0.1", "128.0.0.1", "2600:1901::1",
        "2a00:1450:4001::8a", "2001:4860:4860::8888", "2001:200::1", "::ffff:8.8.8.8", "64:ff9b::808:808", "3ffe::1",
    ])
    func publicAddressesAreAllowed(_ text: String) throws {
        #expect(AddressPolicy.publicOnly.allows(try #require(IPAddress(text))))
    }

    @Test(arguments: [
        "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.255", "127.0.0.1",
        "127.255.255.254", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.2.1", "192.88.99.1",
        "192.168.0.1", "198.18.0.1", "198.19.255.255", "198.51.100.7", "203.0.113.7", "224.0.0.1", "239.1.1.1",
        "240.0.0.1", "255.255.255.255",
    ])
    func nonPublicIPv4AddressesAreRefused(_ text: String) throws {
        #expect(!AddressPolicy.publicOnly.allows(try #require(IPAddress(text))))
        #expect(!AddressPolicy.publicOnly.allows(try #require(IPAddress("::ffff:\(text)"))), "mapped")
        #expect(!AddressPolicy.publicOnly.allows(try #require(IPAddress("64:ff9b::\(text)"))), "behind NAT64")
        #expect(!AddressPolicy.publicOnly.allows(try #require(IPAddress("::\(text)"))), "compatible")
    }

    @Test(arguments: [
        "::", "::1", "::2", "fe80::1", "febf::1", "fec0::1", "fc00::1", "fd12:3456::1", "ff02::1", "ff0e::1",
        "2001:db8::1", "2001::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:10::1", "2001:20::1", "2001:2::1",
        "2002:a00:1::1", "2002:808:808::1", "3fff::1", "64:ff9b:1::808:808", "100::1", "5f00::1", "4000::1",
    ])
    func nonPublicIPv6AddressesAreRefused(_ text: String) throws {
        #expect(!AddressPolicy.publicOnly.allows(try #require(IPAddress(text))))
    }

    @Test func anExceptionIsForOneAddress() throws {
        let loopback = try #require(IPAddress("127.0.0.1"))
        let policy = AddressPolicy(exceptions: [loopback])
        #expect(policy.allows(loopback))
        #expect(!policy.allows(try #require(IPAddress("127.0.0.2"))))
        #expect(!policy.allows(try #require(IPAddress("::1"))))
        #expect(policy.allows(try #require(IPAddress("::ffff:127.0.0.1"))), "the same address")
    }

    @Test(arguments: ["", "1.2.3", "1.2.3.4.5", "256.1.1.1", "[::1]", "fe80::1%eth0", "localhost", "127.0.0.1\0.com"])
    func anInvalidAddressIsNil(_ text: String) { #expect(IPAddress(text) == nil) }
}
