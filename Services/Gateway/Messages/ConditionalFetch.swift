import Store

/// Whether the client has the newest package already.
///
/// Source: RFC 9110 §13.2.2: `If-None-Match` takes precedence over `If-Modified-Since`; Wallet Orders §1.2a
struct ConditionalFetch: Hashable {
    let ifNoneMatch: [String]
    let ifModifiedSince: String?

    init(_ fields: Request.Fields) {
        self.ifNoneMatch = fields.ifNoneMatch
        self.ifModifiedSince = fields.ifModifiedSince
    }

    /// Whether there is a condition at all.
    var isConditional: Bool { !self.ifNoneMatch.isEmpty || self.ifModifiedSince != nil }

    func isFresh(_ stamp: PackageReader.Stamp) -> Bool {
        if !self.ifNoneMatch.isEmpty {
            return self.ifNoneMatch.contains { header in
                header.split(separator: ",").contains { candidate in
                    // A GET compares weakly, so the mark of a weak tag is passed over (RFC 9110 §13.1.2).
                    var tag = candidate.drop { $0 == " " || $0 == "\t" }
                    while tag.last == " " || tag.last == "\t" { tag.removeLast() }
                    if tag == "*" { return true }
                    if tag.hasPrefix("W/") { tag = tag.dropFirst(2) }
                    return tag == "\"\(stamp.entityTag)\""
                }
            }
        }
        guard let given = self.ifModifiedSince else { return false }
        if given == HTTPDate.format(epochSeconds: stamp.modifiedEpochSeconds) { return true }
        return HTTPDate.parse(given).map { $0 >= stamp.modifiedEpochSeconds } ?? false
    }
}
