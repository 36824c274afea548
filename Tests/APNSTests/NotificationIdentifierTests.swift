import NIOCore
import Testing

@testable import APNS

@Suite struct NotificationIdentifierTests {
    @Test func eachIdentifierIsAUniqueLowerCaseUUID() {
        var generator = IdentifierGenerator()
        var seen: Set<[UInt8]> = []
        var text: [UInt8] = []
        for _ in 0..<1_000 {
            NotificationIdentifier(using: &generator).write(into: &text)
            let parts = text.split(separator: UInt8(ascii: "-")).map(\.count)
            #expect(parts == [8, 4, 4, 4, 12])
            #expect(text[14] == UInt8(ascii: "4"))
            #expect(Array("89ab".utf8).contains(text[19]))
            #expect(text.allSatisfy { Array("0123456789abcdef-".utf8).contains($0) })
            seen.insert(text)
        }
        #expect(seen.count == 1_000)
    }
}
