import Foundation
import TestKit
import Testing

@testable import Fetch

@Suite struct IPAddressTests {
    /// Returns the address as the C library parses it.
    func reference(_ text: String) -> UInt128? {
        func number(_ family: Int32, _ count: Int) -> UInt128? {
            var bytes = [UInt8](repeating: 0, count: count)
            let isRead = unsafe inet_pton(family, text, &bytes) == 1
            return isRead ? bytes.reduce(0) { $0 << 8 | UInt128($1) } : nil
        }
        return number(AF_INET, 4).map { 0xFFFF << 32 | $0 } ?? number(AF_INET6, 16)
    }

    @Test(arguments: [
        "0.0.0.0", "255.255.255.255", "192.0.2.1", "::", "::1", "1::", "2001:db8::1", "2001:DB8:0:0:8:800:200C:417A",
        "::ffff:192.0.2.1", "::192.0.2.1", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:192.0.2.1", "1:2:3::5:6:7:8", "fe80::1:2",
        "64:ff9b::192.0.2.33", "::2:3:4:5:6:7:8", "1:2:3:4:5:6:7::",
    ])
    func anAddressIsReadAsTheSystemReadsIt(text: String) throws {
        let expected = try #require(self.reference(text))
        #expect(IPAddress(text)?.bits == expected)
    }

    @Test(arguments: [
        "", ".", ":", "1", "1.2.3", "1.2.3.4.5", "1.2.3.256", "01.2.3.4", "1.2.3.04", "1.2.3.-4", "1.2.3.+4",
        " 1.2.3.4",
        "1.2.3.4 ", "0x1.2.3.4", "1.2.3.4:80", "1..2.3", "1.2.3.", ":::", "1:::2", "1::2::3", "::1::", "1:2:3:4:5:6:7",
        "1:2:3:4:5:6:7:8:9", "1:2:3:4::5:6:7:8", "12345::", "g::", "[::1]", "::1%eth0", "fe80::1/64", "1:", ":1",
        "1:2:",
        "1.2.3.4::", "::1.2.3.4:1", "::1.2.3", "::1.2.3.4.5", "::1.2.3.400", "1:2:3:4:5:6:7:1.2.3.4", "::é", "1.2.3.é",
        "localhost", "::\u{0}", "1.2.3.4\u{0}", String(repeating: "1", count: 10_000),
        String(repeating: ":", count: 10_000),
    ])
    func anInvalidAddressIsNil(text: String) {
        #expect(IPAddress(text) == nil)
    }

    /// For random spellings close to valid ones, both parsers agree.
    @Test func randomAddressesParseAsTheSystemParsesThem() {
        var random = SeededGenerator(seed: 11)
        let letters = Array("0123456789abcdefF::::....x")
        var read = 0
        for _ in 0..<20_000 {
            let text = String(
                (0..<Int.random(in: 0...12, using: &random)).map { _ in letters.randomElement(using: &random) ?? ":" })
            let expected = self.reference(text)
            if expected != nil { read += 1 }
            #expect(IPAddress(text)?.bits == expected, "\(text)")
        }
        #expect(read > 50)
    }
}
