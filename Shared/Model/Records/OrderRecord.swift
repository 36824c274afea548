/// The value of `waybill.orders`: one version of an order, enough to make its package. The key says which order.
///
/// A removed order is a tombstone (null value) there and has no record.
/// Source: Design §3
public struct OrderRecord: Hashable, Sendable {
    public var document: OrderDocument
    public var token: AuthenticationToken
    public var version: Int64
    public var modifiedEpochSeconds: Int64
    public var positions: AppliedPositions
    public var recent: RecentChanges
    /// Nil for a version whose package is made when it is asked for.
    public var package: RecordedPackage?
    /// The text of the `PackageSeal`, with which the package is built again without signing; nil if it is not known.
    public var seal: String?
    /// As in `OrderState`; nil or empty if the order has none.
    public var contributions: Contributions?

    public init(_ state: OrderState, package: RecordedPackage?, seal: String? = nil) {
        self.document = state.document
        self.token = state.token
        self.version = state.version
        self.modifiedEpochSeconds = state.modifiedEpochSeconds
        self.positions = state.positions
        self.recent = state.recent
        self.package = package
        self.seal = seal
        self.contributions = state.contributions
    }

    /// Returns the state of the order.
    public func state(key: OrderKey) -> OrderState {
        OrderState(
            key: key, document: self.document, token: self.token, version: self.version,
            modifiedEpochSeconds: self.modifiedEpochSeconds, positions: self.positions, recent: self.recent,
            contributions: self.contributions)
    }

    /// The record as JSON in UTF-8, members sorted.
    public var encoded: [UInt8] {
        let document = self.document.serialized
        var output = JSONOutput(capacity: document.count + 2048)
        output.append(text: "{")
        if let contributions, !contributions.isEmpty {
            output.append(text: "\"contributions\":")
            contributions.json(version: self.version).write(to: &output)
            output.append(text: ",")
        }
        // Sorted as well, and all after "document".
        var others: JSONObject = [
            "format": .integer(RecordError.format),
            "modified": .integer(self.modifiedEpochSeconds),
            "recent": .string(self.recent.text),
            "sources": self.positions.json,
            "token": .string(self.token.rawValue),
            "version": .integer(self.version),
        ]
        if let package = self.package { others["package"] = package.json }
        if let seal = self.seal { others["seal"] = .string(seal) }
        output.append(text: "\"document\":")
        output.append(json: document.span)
        output.append(UInt8(ascii: ","))
        others.writeMembers(to: &output)
        output.append(UInt8(ascii: "}"))
        return output.bytes
    }

    /// Reads what `encoded` made; members that a later version of Waybill may have added are ignored.
    ///
    /// The document is not validated: that was done before it was written, and rules may have changed since.
    /// - Throws: `RecordError` with the JSON path of what is wrong.
    public static func decode(_ value: [UInt8]) throws(RecordError) -> OrderRecord {
        try OrderRecord(try RecordError.members(value, "an order record"))
    }

    private init(_ members: JSONMembers<RecordError>) throws(RecordError) {
        var object = members
        self.document = OrderDocument(members: try object.object("document"))
        self.modifiedEpochSeconds = try object.integer("modified", in: OrderState.modificationRange)
        self.package =
            object.has("package") ? try RecordedPackage(json: try object.value("package"), path: "$.package") : nil
        self.recent = try RecentChanges(decoding: Array(try object.string("recent").utf8))
        self.positions = try AppliedPositions(json: try object.value("sources"), path: "$.sources")
        self.token = try object.identifier("token") { (text) throws(IdentifierError) in
            try AuthenticationToken(text)
        }
        self.version = try object.integer("version", in: OrderState.versionRange)
        self.seal = object.has("seal") ? try object.string("seal") : nil
        if object.has("contributions") {
            self.contributions = try Contributions.read(
                try object.value("contributions"), version: self.version, path: "$.contributions")
        }
    }
}

/// Headers of `waybill.orders`, and also of `waybill.registrations` for records that moved to another partition.
public enum OrderRecordHeader {
    /// Marks a version that no device is to be notified of; its value is `1`. The next notification covers it as well.
    public static let silent = "waybill-silent"
}

/// The assets and the entity tag of a stored package, enough to decide whether another one would be the same.
///
/// Source: Design §3, `waybill.orders`; §7
public struct RecordedPackage: Hashable, Sendable {
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
        var object = try JSONMembers(json, path: path, failure: RecordError.init)
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
