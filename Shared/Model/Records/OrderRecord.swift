/// The value of `waybill.orders`: one version of an order, enough to make its package again. The key says which order.
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
    /// The digest of what was in its package, 32 lower-case hexadecimal digits: see `OrderPackage.contentDigest`. Nil
    /// for a version whose package is made when it is asked for.
    public var content: String?
    /// As in `OrderState`; nil or empty if the order has none.
    public var contributions: Contributions?

    public init(_ state: OrderState, content: String?) {
        self.document = state.document
        self.token = state.token
        self.version = state.version
        self.modifiedEpochSeconds = state.modifiedEpochSeconds
        self.positions = state.positions
        self.recent = state.recent
        self.content = content
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
        if let content { output.append(text: "\"content\":\"\(content)\",") }
        if let contributions, !contributions.isEmpty {
            output.append(text: "\"contributions\":")
            contributions.json(version: self.version).write(to: &output)
            output.append(text: ",")
        }
        // Sorted as well, and all after "document".
        let others: JSONObject = [
            "format": .integer(RecordError.format),
            "modified": .integer(self.modifiedEpochSeconds),
            "recent": .string(self.recent.text),
            "sources": self.positions.json,
            "token": .string(self.token.rawValue),
            "version": .integer(self.version),
        ]
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
        var text = 0..<0
        let json = try RecordError.json(value, "an order record", document: &text)
        return try OrderRecord(try RecordError.members(of: json), document: Array(value[text]))
    }

    /// Returns the digest of a package's content, read from text.
    private static func content(_ text: String) throws(RecordError) -> String {
        let isDigest =
            text.utf8.count == 32
            && text.utf8.allSatisfy {
                (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0)
                    || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains($0)
            }
        guard isDigest else { throw RecordError("$.content must be 32 lower-case hexadecimal digits") }
        return text
    }

    private init(_ members: JSONMembers<RecordError>, document: [UInt8]) throws(RecordError) {
        var object = members
        self.document = OrderDocument(members: try object.object("document"), text: document)
        self.modifiedEpochSeconds = try object.integer("modified", in: OrderState.modificationRange)
        self.content = object.has("content") ? try Self.content(try object.string("content")) : nil
        self.recent = try RecentChanges(decoding: Array(try object.string("recent").utf8))
        self.positions = try AppliedPositions(json: try object.value("sources"), path: "$.sources")
        self.token = try object.identifier("token") { (text) throws(IdentifierError) in
            try AuthenticationToken(text)
        }
        self.version = try object.integer("version", in: OrderState.versionRange)
        if object.has("contributions") {
            self.contributions = try Contributions.read(
                try object.value("contributions"), version: self.version, path: "$.contributions")
        }
    }
}
