/// Returns true if a name in a certificate is that of a host, as TLS clients compare them.
///
/// Case does not matter, an asterisk stands for the whole left-most label, and a dot at the end is ignored.
/// Source: RFC 9525 §6.3
/// - Parameters:
///   - host: the host as it was requested, in ASCII.
///   - name: the content of a subjectAltName of type dNSName.
public func isHost(_ host: String, named name: some Collection<UInt8>) -> Bool {
    let host = labels(host.utf8)
    let name = labels(name)
    guard host.count == name.count, let first = name.first, !host.contains(where: \.isEmpty) else { return false }
    if host == name { return true }
    // Not for a whole top-level domain.
    return first == [UInt8(ascii: "*")] && name.count > 2 && host.dropFirst() == name.dropFirst()
}

private func labels(_ name: some Collection<UInt8>) -> [[UInt8]] {
    let lower = name.map { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) ? $0 | 0x20 : $0 }
    let labels = lower.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false).map(Array.init)
    return labels.count > 1 && labels.last == [] ? labels.dropLast() : labels
}
