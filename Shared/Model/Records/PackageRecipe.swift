/// The assets and the entity tag of a stored package, enough to decide whether another one would be the same.
///
/// Source: Design §3, `waybill.orders`; §7
public struct PackageRecipe: Hashable, Sendable {
    /// Digests of the ZIP entries, 64 lower-case hexadecimal digits each, in the order of the archive.
    public var assets: [String]
    /// The entity tag, without quotation marks.
    public var entityTag: String

    public init(assets: [String], entityTag: String) {
        self.assets = assets
        self.entityTag = entityTag
    }

    var json: JSON {
        ["assets": .array(self.assets.map { .string($0) }), "entityTag": .string(self.entityTag)]
    }

    init(json: JSON, path: String) throws(RecordError) {
        let object = try RecordReader(json, path: path)
        self.assets = []
        for (index, entry) in try object.array("assets").enumerated() {
            guard let digest = entry.string, digest.utf8.count == 64,
                digest.utf8.allSatisfy({
                    (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0)
                        || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains($0)
                })
            else { throw RecordError("\(path).assets[\(index)] must be 64 lower-case hexadecimal digits") }
            self.assets.append(digest)
        }
        self.entityTag = try object.string("entityTag")
        // Source: RFC 9110 §8.8.3, etagc; those above ASCII are left out.
        guard !self.entityTag.isEmpty, self.entityTag.utf8.count <= 255,
            self.entityTag.utf8.allSatisfy({ $0 == 0x21 || (0x23...0x7E).contains($0) })
        else {
            throw RecordError("\(path).entityTag must be 1 to 255 printable ASCII characters without quotation marks")
        }
    }
}
