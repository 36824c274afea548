import Model
import Testing

@Suite struct TraceContextTests {
    private static let trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    static let parent = "00-\(trace)-00f067aa0ba902b7-01"

    private static func decode(
        _ attributes: [(String, JSON)] = [], headers: [(name: String, value: [UInt8]?)] = []
    ) throws -> OrderChange {
        let key = "order.com.example/1"
        var event: JSONObject = [
            "specversion": "1.0", "id": "1", "source": "/oms", "type": "waybill.order.removed",
            "subject": .string(key),
        ]
        for (name, value) in attributes { event[name] = value }
        return try OrderChange.decode(
            key: Array(key.utf8), value: JSON.object(event).serialized, headers: headers)
    }

    private static func header(_ name: String, _ text: String) -> (name: String, value: [UInt8]?) {
        (name, Array(text.utf8))
    }

    @Test func theExampleOfTheSpecificationIsValid() {
        let context = TraceContext(traceparent: Self.parent, tracestate: "congo=t61rcWkgMzE")
        #expect(context?.traceparent == Self.parent)
        #expect(context?.tracestate == "congo=t61rcWkgMzE")
        #expect(context?.traceID == Self.trace)
        #expect(context?.parentID == "00f067aa0ba902b7")
        #expect(context?.isSampled == true)
        #expect(TraceContext(traceparent: "00-\(Self.trace)-00f067aa0ba902b7-02")?.isSampled == false)
        #expect(TraceContext(traceparent: "00-\(Self.trace)-00f067aa0ba902b7-ff")?.isSampled == true)
    }

    /// Texts that are no `traceparent`.
    static let others = [
        "", "00", "01-\(trace)-00f067aa0ba902b7-01", "ff-\(trace)-00f067aa0ba902b7-01",
        "00-\(trace)-00f067aa0ba902b7-01-", "00-\(trace)-00f067aa0ba902b7-1", "00-\(trace)-00f067aa0ba902b7-0g",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01", "00-\(trace)-0000000000000000-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", "00-\(trace)_00f067aa0ba902b7-01",
        "00-\(trace)0-0f067aa0ba902b7-01", " 00-\(trace)-00f067aa0ba902b7-01", "00-\(trace)-00f067aa0ba902bé-1",
    ]

    /// Texts that are no `tracestate`.
    static let otherStates = ["", "a=\n", "a=é", String(repeating: "a", count: 513)]

    @Test(arguments: others)
    func anotherTextIsNoContext(_ text: String) throws {
        #expect(TraceContext(traceparent: text) == nil)
        #expect(try Self.decode([("traceparent", .string(text))]).trace == nil)
    }

    @Test(arguments: otherStates)
    func aStateThatIsNotValidIsLeftOut(_ state: String) {
        let context = TraceContext(traceparent: Self.parent, tracestate: state)
        #expect(context == TraceContext(traceparent: Self.parent))
        #expect(context?.tracestate == nil)
    }

    @Test func theContextOfAnEventComesBeforeThatOfItsRecord() throws {
        let other = "00-\(Self.trace)-1111111111111111-00"
        let headers = [Self.header("traceparent", other), Self.header("tracestate", "b=2")]
        #expect(try Self.decode().trace == nil)
        #expect(try Self.decode(headers: headers).trace == TraceContext(traceparent: other, tracestate: "b=2"))
        let own: [(String, JSON)] = [("traceparent", .string(Self.parent)), ("tracestate", "a=1")]
        #expect(try Self.decode(own, headers: headers).trace?.traceparent == Self.parent)
        #expect(try Self.decode(own, headers: headers).trace?.tracestate == "a=1")
        for wrong: JSON in [.null, 7, "x", []] {
            #expect(try Self.decode([("traceparent", wrong)], headers: headers).trace?.traceparent == other)
        }
        #expect(try Self.decode(headers: headers + headers).trace == nil, "two contexts say nothing")
        #expect(try Self.decode(headers: [("traceparent", nil)]).trace == nil)
        #expect(try Self.decode(headers: [("traceparent", [0xFF])]).trace == nil)
    }

    @Test func anEventInBinaryModeHasItsContextInHeaders() throws {
        let key = "order.com.example/1"
        let headers = [
            ("specversion", "1.0"), ("id", "1"), ("source", "/oms"), ("type", "waybill.order.removed"),
            ("subject", key), ("traceparent", Self.parent), ("tracestate", "a=1"),
        ].map { Self.header("ce_\($0)", $1) }
        let change = try OrderChange.decode(key: Array(key.utf8), value: nil, headers: headers)
        #expect(change.trace == TraceContext(traceparent: Self.parent, tracestate: "a=1"))
        #expect(TraceContext(value: nil, headers: headers) == change.trace)
    }

    @Test func aRecordThatIsNoValidChangeHasAContextToo() {
        let event: JSON = ["specversion": "0.3", "traceparent": .string(Self.parent)]
        #expect(TraceContext(value: event.serialized, headers: [])?.traceparent == Self.parent)
        let header = [Self.header("traceparent", Self.parent)]
        #expect(TraceContext(value: Array("{".utf8), headers: header)?.traceparent == Self.parent)
        #expect(TraceContext(value: Array("{".utf8), headers: []) == nil)
        #expect(TraceContext(value: nil, headers: []) == nil)
    }

    @Test func aVersionLinksTheNewestEightContextsOnce() throws {
        let all = try (1...12).map { number in
            try #require(TraceContext(traceparent: "00-\(Self.trace)-00000000000000\(number + 10)-01"))
        }
        #expect(TraceContext.links([TraceContext]()).isEmpty)
        #expect(TraceContext.links(all) == Array(all.reversed().prefix(8)))
        #expect(TraceContext.links([all[0], all[1], all[0], all[0]]) == [all[0], all[1]])
    }
}
