/// Links as people and other systems write them.
public enum WebLink {
    /// Returns the absolute URL that a text certainly means; nil if it is no link.
    ///
    /// White space around it is dropped, `//host` gets `https:`, and `HTTPS:` small letters. After the host, each byte
    /// that a URL may not have is percent-encoded, and a `%` without its two digits too. Free text, a link without a
    /// scheme, two links, several lines, and a host beyond ASCII are no link.
    /// Source: RFC 3986 §2.1, §3.1, §4.2
    public static func mended(_ text: String) -> String? {
        var link = Array(text.trimmingWhiteSpace.utf8)
        if link.starts(with: "//".utf8) { link.insert(contentsOf: "https:".utf8, at: 0) }
        guard let scheme = Self.schemes.first(where: { Self.begins(link[...], with: $0) }) else {
            return isURL(link.span) ? String(decoding: link, as: UTF8.self) : nil
        }
        var mended = Array(scheme.utf8)
        let host = link.dropFirst(mended.count).prefix { !"/?#".utf8.contains($0) }
        mended += host
        var isAfterSpace = false
        for index in host.endIndex..<link.endIndex {
            let byte = link[index]
            // Text after the link may be another one, and a control character begins a line or is a fault of encoding.
            if isAfterSpace, Self.schemes.contains(where: { Self.begins(link[index...], with: $0) }) { return nil }
            if byte < 0x20 || byte == 0x7F { return nil }
            isAfterSpace = byte == 0x20
            if byte == UInt8(ascii: "%") ? isEscape(link.span, index) : isURLCharacter(byte) {
                mended.append(byte)
            } else {
                mended += [UInt8(ascii: "%"), Self.digits[Int(byte >> 4)], Self.digits[Int(byte & 0xF)]]
            }
        }
        return isURL(mended.span) ? String(decoding: mended, as: UTF8.self) : nil
    }

    private static let schemes = ["https://", "http://"]
    private static let digits = Array("0123456789ABCDEF".utf8)

    private static func begins(_ bytes: ArraySlice<UInt8>, with scheme: String) -> Bool {
        bytes.count >= scheme.utf8.count
            && zip(bytes, scheme.utf8).allSatisfy { byte, wanted in
                byte == wanted || (byte | 0x20 == wanted && wanted >= UInt8(ascii: "a"))
            }
    }
}

extension String {
    fileprivate var trimmingWhiteSpace: String {
        let rest = self.unicodeScalars.drop { $0.properties.isWhitespace }
        guard let last = rest.lastIndex(where: { !$0.properties.isWhitespace }) else { return "" }
        return String(rest[...last])
    }
}
