/// The header values kept from an answer.
struct ResponseHeaders: Hashable, Sendable {
    private(set) var entityTag: String?
    private(set) var lastModified: String?
    private(set) var location: String?
    private(set) var contentType: String?
    private var byteCount = 0

    /// The most bytes of all header lines of an answer.
    private static let byteLimit = 64 << 10
    /// A longer value is not kept, since it would be sent back with each request.
    private static let validatorLimit = 512

    /// Parses one line as libcurl passes it: complete, with its end.
    ///
    /// - Returns: false if the headers are too large; the answer must then be dropped.
    mutating func receive(_ line: [UInt8]) -> Bool {
        self.byteCount += line.count
        guard self.byteCount <= Self.byteLimit else { return false }
        let text = String(decoding: line, as: UTF8.self)
        // Informational answers precede the final one.
        if text.hasPrefix("HTTP/") { self = ResponseHeaders(byteCount: self.byteCount) }
        guard let colon = text.utf8.firstIndex(of: UInt8(ascii: ":")) else { return true }
        let value = text[text.utf8.index(after: colon)...].trimmed
        switch text[..<colon].lowercased() {
        case "etag": self.entityTag = Self.isEntityTag(value) ? value : nil
        case "last-modified": self.lastModified = Self.mayBeSentBack(value) ? value : nil
        case "location": self.location = value
        case "content-type": self.contentType = Self.mayBeSentBack(value) ? value : nil
        default: break
        }
        return true
    }

    init() {}

    private init(byteCount: Int) { self.byteCount = byteCount }

    /// Source: RFC 9110 §8.8.3
    static func isEntityTag(_ text: String) -> Bool {
        let opaque = text.hasPrefix("W/") ? text.dropFirst(2) : text[...]
        guard Self.mayBeSentBack(text), opaque.utf8.count >= 2, opaque.first == "\"", opaque.last == "\"" else {
            return false
        }
        return !opaque.dropFirst().dropLast().contains { $0 == "\"" || $0 == " " }
    }

    /// Returns true if a value can be sent in a header line without starting another one.
    static func mayBeSentBack(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.count <= Self.validatorLimit && text.utf8.allSatisfy { (0x20...0x7E).contains($0) }
    }
}

extension Substring {
    /// The text without spaces, tabs and line ends on both sides.
    fileprivate var trimmed: String {
        let isSpace = { (byte: UInt8) in byte == 0x20 || (0x09...0x0D).contains(byte) }
        guard let first = self.utf8.firstIndex(where: { !isSpace($0) }),
            let last = self.utf8.lastIndex(where: { !isSpace($0) })
        else { return "" }
        return String(self[first...last])
    }
}
