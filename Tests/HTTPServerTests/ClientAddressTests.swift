import NIOCore
import Testing

@testable import HTTPServer

@Suite struct ClientAddressTests {
    func client(_ text: String, port: Int = 1) throws -> ClientAddress {
        ClientAddress(try SocketAddress(ipAddress: text, port: port))
    }

    @Test func thePortDoesNotCount() throws {
        #expect(try self.client("192.0.2.1", port: 1) == self.client("192.0.2.1", port: 2))
        #expect(try self.client("192.0.2.1") != self.client("192.0.2.2"))
    }

    @Test func aNetworkOf64BitsIsOneClient() throws {
        #expect(try self.client("2001:db8:1:2::1") == self.client("2001:db8:1:2:ffff:ffff:ffff:ffff"))
        #expect(try self.client("2001:db8:1:2::1") != self.client("2001:db8:1:3::1"))
        #expect(try self.client("::1") != self.client("0.0.0.1"))
    }

    @Test func anAddressMappedIntoIPv6IsTheIPv4Address() throws {
        #expect(try self.client("::ffff:192.0.2.1") == self.client("192.0.2.1"))
        #expect(try self.client("::ffff:192.0.2.1") != self.client("::ffff:192.0.2.2"))
        #expect(try self.client("::192.0.2.1") != self.client("192.0.2.1"), "the old compatible form is not mapped")
    }

    @Test func theZoneOfALinkLocalAddressDoesNotCount() throws {
        #expect(try self.client("fe80::1:2%lo") == self.client("fe80::1:2"))
        #expect(try self.client("fe80::1:2%lo") != .unknown)
    }

    @Test func clientsWithoutAnAddressAreOne() throws {
        let local = try SocketAddress(unixDomainSocketPath: "/tmp/socket")
        #expect(ClientAddress(local) == ClientAddress(nil))
        #expect(ClientAddress(nil) == .unknown)
        for text in ["0.0.0.0", "::", "::1", "0.0.0.1", "0:0:0:1::"] { #expect(try self.client(text) != .unknown) }
    }
}
