import CCurl
import Glibc

/// An IPv4 or IPv6 address.
public struct IPAddress: Hashable, Sendable, CustomStringConvertible {
    /// 4 or 16 bytes, the highest first.
    let bytes: [UInt8]

    /// Parses `192.0.2.1` or `2001:db8::1`, without brackets and zone; nil for anything else.
    public init?(_ text: String) {
        guard !text.utf8.contains(0) else { return nil }
        for (family, count) in [(AF_INET, 4), (AF_INET6, 16)] {
            var bytes = [UInt8](repeating: 0, count: count)
            if unsafe inet_pton(family, text, &bytes) == 1 {
                self.bytes = bytes
                return
            }
        }
        return nil
    }

    init(v4 value: UInt32) { self.bytes = (0..<4).map { UInt8(truncatingIfNeeded: value >> UInt32(24 - 8 * $0)) } }

    /// Reads the address that libcurl is about to connect to; nil for one of another family.
    init?(_ address: UnsafeMutablePointer<curl_sockaddr>) {
        // The member is declared, so it has an offset.
        let offset = MemoryLayout<curl_sockaddr>.offset(of: \.addr)!
        let start = unsafe UnsafeRawPointer(address) + offset
        let raw = unsafe UnsafeRawBufferPointer(start: start, count: Int(address.pointee.addrlen))
        unsafe self.init(family: address.pointee.family, raw)
    }

    /// Reads a socket address; nil for one of another family.
    ///
    /// Layout: `sockaddr_in` has its address in bytes 4 to 7, `sockaddr_in6` in bytes 8 to 23.
    /// Source: netinet/in.h
    init?(family: Int32, _ raw: UnsafeRawBufferPointer) {
        switch (family, raw.count) {
        case (AF_INET, MemoryLayout<sockaddr_in>.size...): self.bytes = unsafe Array(raw[4..<8])
        case (AF_INET6, MemoryLayout<sockaddr_in6>.size...): self.bytes = unsafe Array(raw[8..<24])
        default: return nil
        }
    }

    /// As libcurl takes it after a host and port: IPv6 in brackets.
    var pinned: String { self.bytes.count == 16 ? "[\(self)]" : "\(self)" }

    public var description: String {
        guard self.bytes.count == 16 else { return self.bytes.map(String.init).joined(separator: ".") }
        return stride(from: 0, to: 16, by: 2).map {
            String(UInt16(self.bytes[$0]) << 8 | UInt16(self.bytes[$0 + 1]), radix: 16)
        }.joined(separator: ":")
    }
}
