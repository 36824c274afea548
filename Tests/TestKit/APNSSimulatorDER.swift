import Foundation

/// As much DER as the simulator needs: the topic of a client certificate and the point of a P-256 key.
///
/// Written here and not taken from Cryptography, so that the simulator judges what that module makes.
/// Source: ITU-T X.690 §8.1
enum APNSSimulatorDER {
    /// The contents of the value at the start, and what stands behind it. Lengths up to three bytes.
    static func value(
        _ bytes: ArraySlice<UInt8>
    ) -> (tag: UInt8, contents: ArraySlice<UInt8>, rest: ArraySlice<UInt8>)? {
        guard bytes.count >= 2, let tag = bytes.first else { return nil }
        let first = bytes[bytes.startIndex + 1]
        var start = bytes.startIndex + 2
        var length = Int(first)
        if first >= 0x80 {
            let count = Int(first & 0x7F)
            guard (1...3).contains(count), bytes.endIndex - start >= count else { return nil }
            length = bytes[start..<start + count].reduce(0) { $0 << 8 | Int($1) }
            start += count
        }
        guard bytes.endIndex - start >= length else { return nil }
        return (tag, bytes[start..<start + length], bytes[(start + length)...])
    }

    /// The values inside a constructed one; empty when it is malformed.
    static func values(in contents: ArraySlice<UInt8>) -> [(tag: UInt8, contents: ArraySlice<UInt8>)] {
        var found: [(tag: UInt8, contents: ArraySlice<UInt8>)] = []
        var rest = contents
        while let next = Self.value(rest) {
            found.append((next.tag, next.contents))
            rest = next.rest
        }
        return rest.isEmpty ? found : []
    }

    /// The user identifier in the subject of a certificate: the topic it speaks for.
    ///
    /// Source: RFC 5280 §4.1; RFC 4519 §2.39 (0.9.2342.19200300.100.1.1)
    static func userIdentifier(certificate: [UInt8]) -> String? {
        guard let outer = Self.value(certificate[...]), let body = Self.value(outer.contents) else { return nil }
        var fields = Self.values(in: body.contents)
        if fields.first?.tag == 0xA0 { fields.removeFirst() }
        // serialNumber, signature, issuer, validity, subject
        guard fields.count > 4 else { return nil }
        let identifier: [UInt8] = [0x09, 0x92, 0x26, 0x89, 0x93, 0xF2, 0x2C, 0x64, 0x01, 0x01]
        for set in Self.values(in: fields[4].contents) {
            for attribute in Self.values(in: set.contents) {
                let pair = Self.values(in: attribute.contents)
                if pair.count == 2, Array(pair[0].contents) == identifier {
                    return String(decoding: pair[1].contents, as: UTF8.self)
                }
            }
        }
        return nil
    }

    /// The point of a P-256 key in PEM, private (with its public part) or public: 64 bytes, x then y.
    ///
    /// Looks for the bit string of an uncompressed point: both structures carry exactly one.
    /// Source: RFC 5480 §2.2; RFC 5915 §3
    static func point(keyPEM: [UInt8]) -> [UInt8]? {
        let lines = String(decoding: keyPEM, as: UTF8.self).split(whereSeparator: \.isNewline)
        guard let begin = lines.firstIndex(where: { $0.hasPrefix("-----BEGIN ") && $0.contains(" KEY-----") }),
            let end = lines[begin...].firstIndex(where: { $0.hasPrefix("-----END ") }),
            let data = Data(base64Encoded: lines[(begin + 1)..<end].joined())
        else { return nil }
        let bytes = [UInt8](data)
        let marker: [UInt8] = [0x03, 0x42, 0x00, 0x04]
        for start in bytes.indices where bytes.count - start >= 68 {
            if Array(bytes[start..<start + 4]) == marker { return Array(bytes[start + 4..<start + 68]) }
        }
        return nil
    }
}
