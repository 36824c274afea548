import Testing

@testable import HTTP2

@Suite struct HTTP2HeaderBlockTests {
    private func text(_ block: HTTP2HeaderBlock) -> [String] {
        block.fields.map { field in
            String(decoding: block.bytes[field.name], as: UTF8.self) + "="
                + String(decoding: block.bytes[field.value], as: UTF8.self)
        }
    }

    @Test func anUnreplacedHeaderKeepsItsValue() {
        var block = HTTP2HeaderBlock()
        let path = block.append(":path", "", isIndexed: false)
        let topic = block.append("apns-topic", "")
        block.replace(topic, "order.a")
        block.replace(path, "/3/device/", "00")
        #expect(self.text(block) == [":path=/3/device/00", "apns-topic=order.a"])
        block.replace(path, "/3/device/", "01")
        #expect(self.text(block) == [":path=/3/device/01", "apns-topic=order.a"])
    }

    @Test func valuesMayGrowAndShrink() {
        var block = HTTP2HeaderBlock()
        let first = block.append("a", "1")
        let second = block.append("b", "2")
        for count in [5, 0, 3, 200, 1, 201, 1_000, 7] {
            block.replace(first, String(repeating: "x", count: count))
            block.replace(second, Array(repeating: UInt8(ascii: "y"), count: count))
            let wanted = [
                "a=" + String(repeating: "x", count: count), "b=" + String(repeating: "y", count: count),
            ]
            #expect(self.text(block) == wanted)
        }
    }

    @Test func replacedValuesReuseTheirSpace() {
        var block = HTTP2HeaderBlock()
        let place = block.append("a", "")
        block.replace(place, String(repeating: "x", count: 100))
        let size = block.bytes.count
        for count in 0...100 { block.replace(place, String(repeating: "z", count: count)) }
        #expect(block.bytes.count == size)
    }
}
