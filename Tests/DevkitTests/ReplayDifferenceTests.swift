import Kafka
import Model
import TestKit
import Testing

@testable import Devkit

/// The comparisons of a replay notice the differences that they are meant to find.
@Suite struct ReplayDifferenceTests {
    static let token = "0123456789abcdef0123456789abcdef"
    static let order: JSON = [
        "orderIdentifier": "o-1", "orderTypeIdentifier": "order.com.example.shop",
        "webServiceURL": "https://wallet.example.com", "authenticationToken": .string(token), "status": "open",
    ]

    private static func identity(_ order: JSON, url: String? = "https://wallet.example.com") throws -> String? {
        let key = try OrderKey("order.com.example.shop/o-1")
        return OrderDifference.ofIdentity(order, key: key, tokens: [Self.token], webServiceURL: url)
    }

    @Test func anOrderWithItsIdentityHasNoDifference() throws {
        #expect(try Self.identity(Self.order) == nil)
        #expect(try Self.identity(Self.order.setting("https://other.example", "webServiceURL"), url: nil) == nil)
    }

    @Test(
        arguments: [
            ("orderIdentifier", "o-2"), ("orderIdentifier", nil), ("orderTypeIdentifier", "order.com.example.other"),
            ("webServiceURL", "https://wallet.example.com/"), ("webServiceURL", nil), ("authenticationToken", nil),
            ("authenticationToken", "f123456789abcdef0123456789abcdef"), ("orderIdentifier", 1),
        ] as [(String, JSON?)])
    func aWrongIdentityIsNamedWithoutTheToken(_ name: String, _ value: JSON?) throws {
        let difference = try #require(try Self.identity(Self.order.setting(value, name)))
        #expect(difference.hasPrefix(name), "\(difference)")
        #expect(!difference.contains("123456789abcdef"), "\(difference)")
        if value == nil { #expect(try Self.identity(Self.order.setting(nil, name), url: nil) != nil) }
    }

    @Test func aDeviceMustHaveExactlyTheServedOrder() {
        #expect(OrderDifference.ofDevice(Self.order, served: Self.order) == nil)
        let older = Self.order.setting("2025-01-01T00:00:00Z", "updatedAt")
        #expect(OrderDifference.ofDevice(older, served: Self.order)?.contains("updatedAt") == true)
        #expect(OrderDifference.ofDevice(nil, served: Self.order) != nil)
        #expect(OrderDifference.ofDevice(Self.order, served: nil) != nil)
    }

    /// Returns a dead letter as the packager writes it.
    private static func letter(
        _ broken: BrokenRecord,
        _ change: (inout (key: [UInt8]?, value: [UInt8]?, headers: [KafkaHeader])) -> Void = { _ in }
    ) -> KafkaRecord {
        var parts = (key: broken.message.key, value: broken.message.value, headers: broken.message.headers)
        parts.headers += [
            KafkaHeader(name: RecordHeader.error.rawValue, text: broken.kind.code),
            KafkaHeader(name: RecordHeader.reason.rawValue, text: "look at \(broken.kind.mention)"),
            KafkaHeader(name: RecordHeader.origin.rawValue, text: "changes/0/1"),
        ]
        change(&parts)
        return KafkaRecord(
            topic: "letters", partition: 0, offset: 0, timestampMilliseconds: 1, key: parts.key, value: parts.value,
            headers: parts.headers)
    }

    private static func broken(_ kind: BrokenChange) -> BrokenRecord {
        let message = kind.message(BrokenChangeTests.stories[0], number: 1, orderType: Orders.type, topic: "changes")
        return BrokenRecord(kind: kind, message: message)
    }

    @Test(arguments: BrokenChange.allCases) func anUnchangedDeadLetterHasNoDifference(_ kind: BrokenChange) {
        let broken = Self.broken(kind)
        #expect(broken.differences(Self.letter(broken)) == [])
    }

    @Test func anAlteredDeadLetterIsReported() {
        let broken = Self.broken(.wrongAmount)
        #expect(broken.differences(Self.letter(broken) { $0.key = nil }) == ["its key is not the record's"])
        #expect(broken.differences(Self.letter(broken) { $0.value = [] }) == ["its value is not the record's"])
        #expect(broken.differences(Self.letter(broken) { $0.value = nil }) == ["its value is not the record's"])
        #expect(
            broken.differences(Self.letter(broken) { $0.headers.removeFirst() }) == ["its headers are not the record's"]
        )
        let more = Self.letter(broken) { $0.headers.insert(KafkaHeader(name: "trace", text: "1"), at: 0) }
        #expect(broken.differences(more) == ["its headers are not the record's"])
        let twice = Self.letter(broken) {
            $0.headers.append(KafkaHeader(name: RecordHeader.origin.rawValue, text: "x"))
        }
        #expect(broken.differences(twice) == ["the header waybill-origin is not there exactly once"])
        let other = Self.letter(Self.broken(.unknownMember))
        #expect(broken.differences(other).contains { $0.contains("expected invalid-order and a word of $.payment") })
    }

    /// Only a value larger than a change may be is left out, and only if the reason says so.
    @Test func onlyATooLargeValueMayBeLeftOutOfADeadLetter() {
        let isLeftOut = { (parts: inout (key: [UInt8]?, value: [UInt8]?, headers: [KafkaHeader])) in
            parts.value = nil
            parts.headers = parts.headers.map {
                $0.name == RecordHeader.reason.rawValue
                    ? KafkaHeader(name: $0.name, text: "$.payment.total.amount bytes; value and headers are left out")
                    : $0
            }
        }
        let huge = Self.broken(.hugeValue)
        #expect(huge.differences(Self.letter(huge, isLeftOut)) == [])
        #expect(huge.differences(Self.letter(huge) { $0.value = nil }) == ["its value is not the record's"])
        let small = Self.broken(.wrongAmount)
        #expect(small.differences(Self.letter(small, isLeftOut)) == ["its value is not the record's"])
    }
}
