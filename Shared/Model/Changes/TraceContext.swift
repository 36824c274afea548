/// The trace that an event belongs to, as its publisher passes it on: a `traceparent` of version 00 and, if it has one,
/// a `tracestate`.
///
/// Invalid ones are ignored: a trace helps to find a change, and no change is refused for it.
/// Source: W3C Trace Context §3.2, §3.3; CloudEvents 1.0.2, distributed tracing extension
public struct TraceContext: Hashable, Sendable {
    /// The most contexts that one version names.
    public static let linkLimit = 8
    /// The most bytes of `tracestate`, which the specification wants to be passed on at least.
    static let stateLimit = 512

    /// 55 bytes: `00-<trace>-<parent>-<flags>`, in lower-case hexadecimal digits.
    public let traceparent: String
    /// Printable ASCII, 1 to 512 bytes; nil if there is none, or none that is valid.
    public let tracestate: String?

    /// - Returns: nil for a `traceparent` that is not valid.
    public init?(traceparent: String, tracestate: String? = nil) {
        guard Self.isValid(traceparent) else { return nil }
        self.traceparent = traceparent
        self.tracestate = tracestate.flatMap { Self.isValid(state: $0) ? $0 : nil }
    }

    /// Reads the headers `traceparent` and `tracestate` of a record.
    ///
    /// - Returns: nil if it has no valid `traceparent`, or more than one.
    public init?(headers: some Sequence<(name: String, value: [UInt8]?)>) {
        var parent: String?
        var state: String?
        var count = 0
        for (name, value) in headers {
            if name == TraceHeader.traceparent {
                count += 1
                parent = value.flatMap { String(validating: $0, as: UTF8.self) }
            } else if name == TraceHeader.tracestate {
                state = value.flatMap { String(validating: $0, as: UTF8.self) }
            }
        }
        guard count == 1, let parent else { return nil }
        self.init(traceparent: parent, tracestate: state)
    }

    /// Reads the context of a record that may be no valid change: the event's own, or else that of the headers.
    public init?(value: [UInt8]?, headers: [(name: String, value: [UInt8]?)]) {
        var own: TraceContext?
        if headers.contains(where: { $0.name == "ce_\(TraceHeader.traceparent)" }) {
            own = TraceContext(
                headers: headers.lazy.filter { $0.name.hasPrefix("ce_") }
                    .map { (name: String($0.name.dropFirst(3)), value: $0.value) })
        } else if let value, value.count <= OrderChange.valueLimit, let event = try? JSON(parsing: value) {
            own = TraceContext(attributesOf: event)
        }
        guard let context = own ?? TraceContext(headers: headers) else { return nil }
        self = context
    }

    /// Reads the context of an event: its own if it is a CloudEvent, or else that of the record's headers.
    public init?(event: JSON, headers: [(name: String, value: [UInt8]?)]) {
        guard let context = TraceContext(attributesOf: event) ?? TraceContext(headers: headers) else { return nil }
        self = context
    }

    /// Source: CloudEvents 1.0.2, distributed tracing extension
    private init?(attributesOf event: JSON) {
        guard let members = event.object, members["specversion"] != nil,
            let parent = members[TraceHeader.traceparent]?.string
        else { return nil }
        self.init(traceparent: parent, tracestate: members[TraceHeader.tracestate]?.string)
    }

    /// The trace's identifier, 32 hexadecimal digits, by which logs and traces are searched.
    public var traceID: String { String(self.traceparent.dropFirst(3).prefix(32)) }

    /// The identifier of the span that caused the work, 16 hexadecimal digits.
    public var parentID: String { String(self.traceparent.dropFirst(36).prefix(16)) }

    /// True if its publisher records the trace. Source: W3C Trace Context §3.2.2.5.1
    public var isSampled: Bool { (UInt8(self.traceparent.suffix(2), radix: 16) ?? 0) & 1 == 1 }

    /// Returns the contexts that a version names: the newest first, each `traceparent` once, at most `linkLimit`.
    ///
    /// - Parameter contexts: those of the applied changes, oldest first.
    public static func links(_ contexts: some BidirectionalCollection<TraceContext>) -> [TraceContext] {
        var links: [TraceContext] = []
        for context in contexts.reversed() where !links.contains(where: { $0.traceparent == context.traceparent }) {
            links.append(context)
            if links.count == Self.linkLimit { break }
        }
        return links
    }

    /// Source: W3C Trace Context §3.2.2
    private static func isValid(_ traceparent: String) -> Bool {
        guard traceparent.utf8.count == 55 else { return false }
        let parts = traceparent.utf8.split(separator: UInt8(ascii: "-"), omittingEmptySubsequences: false)
        guard parts.map(\.count) == [2, 32, 16, 2] else { return false }
        let isHexadecimal = parts.allSatisfy { part in
            part.allSatisfy { $0 &- UInt8(ascii: "0") < 10 || $0 &- UInt8(ascii: "a") < 6 }
        }
        let isZero = parts.map { part in part.allSatisfy { $0 == UInt8(ascii: "0") } }
        return isHexadecimal && isZero[0] && !isZero[1] && !isZero[2]
    }

    private static func isValid(state: String) -> Bool {
        !state.isEmpty && state.utf8.count <= Self.stateLimit && state.utf8.allSatisfy { 0x20...0x7E ~= $0 }
    }
}

/// The headers of records by which a trace is followed.
public enum TraceHeader {
    /// The newest trace of a record.
    ///
    /// Source: W3C Trace Context §3.2
    public static let traceparent = "traceparent"
    /// The text that vendors add to it.
    ///
    /// Source: W3C Trace Context §3.3
    public static let tracestate = "tracestate"
}
