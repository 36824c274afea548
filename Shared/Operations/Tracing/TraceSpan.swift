import FoundationEssentials
public import Model

/// A piece of work on one or several traced changes, for a collector of traces.
///
/// It is made when the work is done, since one batch holds the work of many orders. It has no personal data: no order,
/// no device, nothing of a document.
/// Source: OpenTelemetry, Trace API
public struct TraceSpan: Sendable {
    /// The relation to what other services do. The numbers are those of OTLP.
    public enum Kind: Int64, Sendable {
        case server = 2
        case client = 3
        case producer = 4
        case consumer = 5
    }

    let name: String
    let kind: Kind
    /// The traces of the changes, the newest first. The span belongs to the newest.
    let contexts: [TraceContext]
    /// Nanoseconds since 1970.
    let start: Int64
    let end: Int64
    /// Texts and whole numbers.
    let attributes: [(name: String, value: JSON)]
    let events: [(name: String, nanoseconds: Int64)]
    let isError: Bool

    /// - Parameters:
    ///   - contexts: the newest first, at most `TraceContext.linkLimit`.
    ///   - times: nanoseconds since 1970.
    ///   - attributes: texts and whole numbers from small sets.
    ///   - events: moments of the work.
    /// - Returns: nil unless the newest trace is sampled.
    public init?(
        _ name: String, _ kind: Kind, of contexts: [TraceContext], from start: Int64, to end: Int64,
        attributes: [(name: String, value: JSON)], events: [(name: String, nanoseconds: Int64)] = [],
        isError: Bool = false
    ) {
        guard contexts.first?.isSampled == true else { return nil }
        self.name = name
        self.kind = kind
        self.contexts = contexts
        self.start = start
        self.end = max(start, end)
        self.attributes = attributes
        self.events = events
        self.isError = isError
    }

    /// The present time, in nanoseconds since 1970.
    public static var now: Int64 { Int64(Date().timeIntervalSince1970 * 1e6) * 1000 }
}

/// The request by which spans go to a collector.
///
/// Source: OTLP 1.5 §JSON Protobuf Encoding: identifiers are hexadecimal, integers of 64 bits are texts
struct SpanExport {
    /// `service.name`, such as `waybill-packager`.
    let service: String
    let version: String

    /// - Parameter identifier: returns the identifier of the next span, not 0.
    func body(_ spans: [TraceSpan], identifier: () -> UInt64) -> [UInt8] {
        let resource: JSON = [
            "attributes": Self.attributes([
                ("service.name", .string(self.service)), ("service.version", .string(self.version)),
            ])
        ]
        let scope: JSON = [
            "scope": ["name": "waybill"], "spans": .array(spans.map { Self.json($0, identifier: identifier()) }),
        ]
        let body: JSON = ["resourceSpans": [["resource": resource, "scopeSpans": [scope]]]]
        return body.serialized
    }

    private static func json(_ span: TraceSpan, identifier: UInt64) -> JSON {
        let parent = span.contexts[0]
        let digits = String(identifier, radix: 16)
        var members: JSONObject = [
            "traceId": .string(parent.traceID), "parentSpanId": .string(parent.parentID),
            "spanId": .string(String(repeating: "0", count: 16 - digits.count) + digits),
            "name": .string(span.name), "kind": .integer(span.kind.rawValue),
            "startTimeUnixNano": .string(String(span.start)), "endTimeUnixNano": .string(String(span.end)),
            "attributes": self.attributes(span.attributes),
        ]
        if let state = parent.tracestate { members["traceState"] = .string(state) }
        if !span.events.isEmpty {
            members["events"] = .array(
                span.events.map { ["name": .string($0.name), "timeUnixNano": .string(String($0.nanoseconds))] })
        }
        // All of them, the parent too: a reader of links needs no other member.
        if span.contexts.count > 1 {
            members["links"] = .array(
                span.contexts.map { ["traceId": .string($0.traceID), "spanId": .string($0.parentID)] })
        }
        // STATUS_CODE_ERROR
        if span.isError { members["status"] = ["code": 2] }
        return .object(members)
    }

    private static func attributes(_ attributes: [(name: String, value: JSON)]) -> JSON {
        .array(
            attributes.map { name, value in
                let shown: JSON =
                    if let number = value.number { ["intValue": .string(number.text)] } else { ["stringValue": value] }
                return ["key": .string(name), "value": shown]
            })
    }
}
