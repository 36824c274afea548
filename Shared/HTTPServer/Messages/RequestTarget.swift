/// Path and query of a request, split and percent-decoded.
///
/// Source: RFC 3986 §3.3, §3.4; RFC 9112 §3.2
public struct RequestTarget {
    private let text: String

    /// - Parameter text: of printable ASCII, in origin or absolute form.
    public init(_ text: String) { self.text = text }

    /// Returns the decoded segments after `/v1`.
    ///
    /// - Returns: nil for any other path.
    /// - Throws: 400 for broken percent-encoding.
    public func segments(behind basePath: String) throws(RequestFault) -> [String]? {
        let bytes = self.text.utf8Span.span
        let end = self.queryStart(bytes)
        var start = self.pathStart(bytes)
        let base = basePath.utf8Span.span
        if !base.isEmpty, Self.hasPrefix(bytes, base, at: start), start + base.count < end,
            bytes[start + base.count] == .slash
        {
            start += base.count
        }
        if start + 1 < end, bytes[start] == .slash, bytes[start + 1] == .slash { start += 1 }
        guard start + 4 <= end, bytes.extracting(start..<start + 4).isEqual("/v1/") else { return nil }
        return try Self.segments(bytes.extracting(start + 4..<end), limit: 6)
    }

    /// Returns all decoded segments of the path, at most 8: one empty segment for `/`, none for anything but a path.
    ///
    /// - Throws: 400 for broken percent-encoding.
    public func segments() throws(RequestFault) -> [String] {
        let bytes = self.text.utf8Span.span
        let (start, end) = (self.pathStart(bytes), self.queryStart(bytes))
        guard start < end, bytes[start] == .slash else { return [] }
        return try Self.segments(bytes.extracting(start + 1..<end), limit: 8) ?? []
    }

    private static func segments(_ bytes: Span<UInt8>, limit: Int) throws(RequestFault) -> [String]? {
        var segments: [String] = []
        segments.reserveCapacity(limit)
        var start = 0
        while start <= bytes.count {
            var next = start
            while next < bytes.count, bytes[next] != .slash { next += 1 }
            // Deeper than any of our paths; the exact place of the difference does not matter.
            guard segments.count < limit else { return nil }
            guard let segment = Self.decoded(bytes.extracting(start..<next)) else {
                throw .malformed("the path has an invalid percent-encoding")
            }
            segments.append(segment)
            start = next + 1
        }
        return segments
    }

    /// Returns the decoded value of a query parameter; nil if it is absent or cannot be decoded.
    public func parameter(_ name: StaticString) -> String? {
        let bytes = self.text.utf8Span.span
        var start = self.queryStart(bytes) + 1
        while start < bytes.count {
            var end = start
            while end < bytes.count, bytes[end] != UInt8(ascii: "&") { end += 1 }
            let valueStart = start + name.utf8CodeUnitCount + 1
            if valueStart <= end, bytes[valueStart - 1] == UInt8(ascii: "="),
                bytes.extracting(start..<valueStart - 1).isEqual(name)
            {
                return Self.decoded(bytes.extracting(valueStart..<end))
            }
            start = end + 1
        }
        return nil
    }

    private func queryStart(_ bytes: Span<UInt8>) -> Int {
        var index = 0
        while index < bytes.count, bytes[index] != UInt8(ascii: "?") { index += 1 }
        return index
    }

    /// Returns the index after scheme and authority, which a server must accept as well. Source: RFC 9112 §3.2.2
    private func pathStart(_ bytes: Span<UInt8>) -> Int {
        guard bytes.isEmpty || bytes[0] != .slash else { return 0 }
        let scheme =
            bytes.count >= 7 && bytes.extracting(0..<7).isEqual("http://")
            ? 7 : bytes.count >= 8 && bytes.extracting(0..<8).isEqual("https://") ? 8 : 0
        guard scheme > 0 else { return 0 }
        var index = scheme
        while index < bytes.count, bytes[index] != .slash, bytes[index] != UInt8(ascii: "?") { index += 1 }
        return index
    }

    private static func hasPrefix(_ bytes: Span<UInt8>, _ prefix: Span<UInt8>, at start: Int) -> Bool {
        guard bytes.count - start >= prefix.count else { return false }
        for index in prefix.indices where bytes[start + index] != prefix[index] { return false }
        return true
    }

    /// Percent-decodes a text; nil if the encoding is broken or the result is not UTF-8. Source: RFC 3986 §2.1
    private static func decoded(_ bytes: Span<UInt8>) -> String? {
        var hasEscapes = false
        for index in bytes.indices where bytes[index] == UInt8(ascii: "%") { hasEscapes = true }
        guard hasEscapes else {
            do { return String(copying: try UTF8Span(validating: bytes)) } catch { return nil }
        }
        var plain: [UInt8] = []
        plain.reserveCapacity(bytes.count)
        var index = 0
        while index < bytes.count {
            guard bytes[index] == UInt8(ascii: "%") else {
                plain.append(bytes[index])
                index += 1
                continue
            }
            guard index + 2 < bytes.count, let high = bytes[index + 1].hexadecimalValue,
                let low = bytes[index + 2].hexadecimalValue
            else { return nil }
            plain.append(high << 4 | low)
            index += 3
        }
        return String(validating: plain, as: UTF8.self)
    }
}

extension UInt8 {
    fileprivate static let slash = UInt8(ascii: "/")
}
