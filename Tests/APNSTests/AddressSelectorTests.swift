import NIOCore
import Testing

@testable import APNS

private func at(_ seconds: Int64) -> NIODeadline { .uptimeNanoseconds(0) + .seconds(1_000 + seconds) }

@Suite struct AddressSelectorTests {
    private func address(_ text: String) throws -> SocketAddress { try SocketAddress(ipAddress: text, port: 443) }
    private func texts(_ addresses: [SocketAddress]) -> [String] { addresses.compactMap(\.ipAddress) }

    @Test func addressFamiliesAlternateWithoutDuplicates() throws {
        let book = AddressSelector(memory: .seconds(60))
        let addresses = try ["::1", "::2", "::1", "10.0.0.1", "10.0.0.2", "::3"].map(self.address)
        #expect(
            self.texts(book.order(addresses, inUse: [:], now: at(0))) == ["::1", "10.0.0.1", "::2", "10.0.0.2", "::3"])
        #expect(book.order([], inUse: [:], now: at(0)).isEmpty)
    }

    @Test func addressesWithTheFewestConnectionsAreFirst() throws {
        let book = AddressSelector(memory: .seconds(60))
        let addresses = try ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(self.address)
        let inUse = [addresses[0]: 2, addresses[1]: 1]
        #expect(self.texts(book.order(addresses, inUse: inUse, now: at(0))) == ["10.0.0.3", "10.0.0.2", "10.0.0.1"])
    }

    @Test func aFailedAddressComesLastUntilItIsForgottenOrWorks() throws {
        var book = AddressSelector(memory: .seconds(60))
        let addresses = try ["10.0.0.1", "10.0.0.2"].map(self.address)
        book.failed(addresses[0], now: at(0))
        #expect(self.texts(book.order(addresses, inUse: [addresses[1]: 5], now: at(59))) == ["10.0.0.2", "10.0.0.1"])
        #expect(self.texts(book.order(addresses, inUse: [:], now: at(60))) == ["10.0.0.1", "10.0.0.2"])
        book.worked(addresses[0])
        #expect(self.texts(book.order(addresses, inUse: [:], now: at(1))) == ["10.0.0.1", "10.0.0.2"])
    }

    @Test func theFamilyWithoutAFailureIsTriedFirst() throws {
        var book = AddressSelector(memory: .seconds(60))
        let addresses = try ["::1", "::2", "10.0.0.1", "10.0.0.2"].map(self.address)
        book.failed(addresses[0], now: at(0))
        #expect(
            self.texts(book.order(addresses, inUse: [:], now: at(1))) == ["10.0.0.1", "10.0.0.2", "::2", "::1"])
    }

    @Test func rememberedFailuresAndReturnedAddressesAreBounded() throws {
        var book = AddressSelector(memory: .seconds(1_000))
        let addresses = try (0..<200).map { try self.address("10.0.1.\($0)") }
        for (index, address) in addresses.enumerated() { book.failed(address, now: at(Int64(index))) }
        #expect(book.order(addresses, inUse: [:], now: at(200)).count == AddressSelector.most)
        #expect(
            book.order([addresses[0], addresses[199]], inUse: [:], now: at(200)).first == addresses[0],
            "the oldest failure was forgotten")
    }

    @Test func theSystemResolvesTheLoopbackAndRejectsAnInvalidName() throws {
        #expect(
            try resolveHost("127.0.0.1", port: 2197)
                == [self.address("127.0.0.1")].map {
                    try SocketAddress(ipAddress: $0.ipAddress ?? "", port: 2197)
                })
        #expect(try resolveHost("::1", port: 443).first?.port == 443)
        #expect(try !resolveHost("localhost", port: 443).isEmpty)
        #expect(throws: APNSError(.connecting, "")) { try resolveHost("no such host", port: 443) }
    }
}
