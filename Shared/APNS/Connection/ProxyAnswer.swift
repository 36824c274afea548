/// Parses a proxy's answer to CONNECT, in pieces of any size. A value.
///
/// Source: RFC 9112 §4, RFC 9110 §9.3.6: any 2xx, and the tunnel begins after the empty line
struct ProxyAnswer {
    /// The result so far.
    enum Verdict: Hashable {
        case incomplete
        case open
        /// The status, or nil if the answer is not HTTP.
        case refused(status: Int?)
    }

    /// The maximum length of the header block, in bytes.
    static let most = 8_192

    private var bytes: [UInt8] = []

    /// Processes the next bytes.
    ///
    /// - Returns: `.refused(nil)` also if something follows the empty line, because the endpoint may not send before
    ///   our ClientHello.
    mutating func receive(_ more: some Sequence<UInt8>) -> Verdict {
        for byte in more {
            guard !self.isWhole, self.bytes.count < Self.most else { return .refused(status: nil) }
            self.bytes.append(byte)
        }
        let start = Array("HTTP/1.".utf8)
        guard self.bytes.prefix(start.count).elementsEqual(start.prefix(self.bytes.count)) else {
            return .refused(status: nil)
        }
        guard self.isWhole else { return .incomplete }
        // `HTTP/1.x SSS`, followed by a space or the end of the line.
        let digits = self.bytes.dropFirst(9).prefix(3)
        guard self.bytes.dropFirst(8).first == UInt8(ascii: " "), digits.count == 3,
            digits.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }),
            [UInt8(ascii: " "), UInt8(ascii: "\r")].contains(self.bytes.dropFirst(12).first),
            let status = Int(String(decoding: digits, as: UTF8.self))
        else { return .refused(status: nil) }
        return (200...299).contains(status) ? .open : .refused(status: status)
    }

    private var isWhole: Bool { self.bytes.suffix(4).elementsEqual("\r\n\r\n".utf8) }
}
