import HTTPServer
import Store

/// Decides if the client already has the newest package.
///
/// Source: RFC 9110 §13.2.2: `If-None-Match` takes precedence over `If-Modified-Since`; Wallet Orders §1.2a
struct ConditionalFetch: Hashable {
    let ifNoneMatch: [String]
    let ifModifiedSince: String?

    /// - Parameter fields: those of the request; nil for no condition.
    init(_ fields: Request.Fields?) {
        self.ifNoneMatch = fields?.ifNoneMatch ?? []
        self.ifModifiedSince = fields?.ifModifiedSince
    }

    /// True if there is a condition at all.
    var isConditional: Bool { !self.ifNoneMatch.isEmpty || self.ifModifiedSince != nil }

    func isFresh(_ stamp: PackageReader.Stamp) -> Bool {
        if !self.ifNoneMatch.isEmpty {
            return self.ifNoneMatch.contains { Self.names(stamp.entityTag, in: $0) }
        }
        guard let given = self.ifModifiedSince else { return false }
        if given == HTTPDate.format(epochSeconds: stamp.modifiedEpochSeconds) { return true }
        return HTTPDate.parse(given).map { $0 >= stamp.modifiedEpochSeconds } ?? false
    }

    /// True if a list of entity tags has ours, or the star for any.
    ///
    /// A GET compares weakly, so the mark of a weak tag is ignored. Source: RFC 9110 §13.1.2
    private static func names(_ entityTag: String, in list: String) -> Bool {
        list.utf8.split(separator: UInt8(ascii: ",")).contains { candidate in
            var tag = candidate.drop { $0.isBlank }
            while let last = tag.last, last.isBlank { tag.removeLast() }
            if tag.elementsEqual("*".utf8) { return true }
            if tag.starts(with: "W/".utf8) { tag = tag.dropFirst(2) }
            guard !entityTag.isEmpty, tag.count == entityTag.utf8.count + 2, tag.first == UInt8(ascii: "\""),
                tag.last == UInt8(ascii: "\"")
            else { return false }
            return tag.dropFirst().dropLast().elementsEqual(entityTag.utf8)
        }
    }
}
