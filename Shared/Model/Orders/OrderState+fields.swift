extension OrderState {
    /// The versions that are accepted when read back; at most 2^53, so that any JSON reader keeps them exact.
    public static let versionRange: ClosedRange<Int64> = 1...(1 << 53)
    /// The modification seconds that are accepted when read back: 1970 to 9999.
    static let modificationRange: ClosedRange<Int64> = 0...RFC3339.latest

    /// The field `document` in Redis: JSON, empty for a removed order.
    public var documentBytes: [UInt8] {
        self.isRemoved ? [] : self.document.serialized
    }

    /// The field `sources` in Redis.
    public var sourcesBytes: [UInt8] { self.positions.encoded }

    /// The field `contributions` in Redis: empty to remove it, nil to leave it as it is.
    public var contributionsBytes: [UInt8]? {
        self.contributions.map { $0.isEmpty || self.isRemoved ? [] : $0.json(version: self.version).serialized }
    }

    /// The field `recent` in Redis.
    public var recentBytes: [UInt8] { self.recent.encoded }

    /// Reads the fields back. An empty document is that of a removed order.
    ///
    /// - Throws: `RecordError` when a field is not what was written.
    public init(
        key: OrderKey, document: [UInt8], token: String, version: Int64, modifiedEpochSeconds: Int64,
        sources: [UInt8], recent: [UInt8], contributions: [UInt8]? = nil
    ) throws(RecordError) {
        guard Self.versionRange.contains(version), Self.modificationRange.contains(modifiedEpochSeconds) else {
            throw RecordError(
                "the version \(version) or the modification second \(modifiedEpochSeconds) is out of range")
        }
        var members = JSONObject()
        if !document.isEmpty {
            guard case .object(let object) = try RecordError.json(document, "an order document") else {
                throw RecordError("the order document must be an object")
            }
            members = object
        }
        let parsedToken: AuthenticationToken
        do {
            parsedToken = try AuthenticationToken(token)
        } catch {
            throw RecordError("the token is wrong: \(error)")
        }
        var parts: Contributions?
        if let contributions, !contributions.isEmpty, !document.isEmpty {
            let json = try RecordError.json(contributions, "the contributions")
            parts = try Contributions.read(json, version: version, path: "$")
        }
        self.init(
            key: key, document: OrderDocument(members: members), token: parsedToken, version: version,
            modifiedEpochSeconds: modifiedEpochSeconds, positions: try AppliedPositions(decoding: sources),
            recent: try RecentChanges(decoding: recent), isRemoved: document.isEmpty, contributions: parts)
    }
}
