/// The parts of one order that several sources wrote. Its document is made of them, so that it is the same in whatever
/// order their events arrived.
///
/// An order has contributions once an event `waybill.order.merged` has been applied to it. The rules:
///
/// 1. **Each event changes the part of its source alone, and the document is a function of all parts.** So events of
///    different sources may arrive in any order, and those of one source arrive in theirs (which `sequence` guards).
/// 2. **A part is merged.** A merged document is a merge patch (RFC 7396) of its source's part, in which elements with
///    identifiers (`fulfillments`, `returns`; `lineItems` by `sku`, else `gtin`) are merged one by one. Updates of
///    fulfillments and returns, and patches, change the part of their source as well.
/// 3. **A path that a source owns and does not send is removed.** Of the paths that an event names in `owns`, those
///    that it does not have are removed from the part; a path inside an object or an element only if the event has that
///    object or element. Without `owns` an event removes nothing, and its source owns the same paths as before.
/// 4. **A path that a source owns is written by no other.** Values of other sources there do not count. Of two claims
///    the longer path wins inside it; a claim inside an object or element binds if its source has that in its part.
/// 5. **If a path has no owner or several, the value that was written last counts.** Its moment is the `time` of the
///    event, or else of its record, with which the source gave the member its present value. Repeating a value does
///    not renew it. At the same moment the source whose name sorts last wins.
/// 6. **Elements are those of all sources, or of the owner of the array.** They are in the order of the first source by
///    name, then of the next. An element that lacks a member that Wallet requires is not shown until some source sends
///    that member.
/// 7. **A change is refused for what its source's part says alone**: a value that would be wrong in any order, or a
///    member that is lacking and that only this source may write. Of the token the same holds as of a member.
/// 8. **Values of several sources that contradict one another** (a status of shipping, an element of pickup) make no
///    order invalid. The one at fault that was written last does not count as long as they do. If it is the only one,
///    it is not shown; if the order needs it, what contains it is not shown.
/// 9. **A document that existed before** is the part of a source without a name, written before all others, and
///    `waybill.order.replaced` makes an order a plain document again.
///
/// Bounded: `limit` sources, and all parts together are no larger than a document may be. Beyond that the change that
/// arrives last is refused. A removal ends all parts; what arrives after it makes the next order, whenever it was
/// written.
public struct Contributions: Hashable, Sendable {
    /// The part that one source wrote.
    struct Part: Hashable, Sendable {
        /// The name of the source; empty for the document that existed before.
        let source: String
        var owns: OwnedPaths
        var document: JSONObject
        var moments: Moments
    }

    /// Sorted by source.
    private(set) var parts: [Part] = []

    /// Returns the part of a source.
    func part(of source: String) -> Part? { self.parts.first { $0.source == source } }

    /// The most sources of one order.
    public static let limit = 16

    /// Makes the contributions of an order that no source has written yet.
    public init() {}

    /// Makes the contributions of an order that was not merged before.
    public init(before document: OrderDocument) {
        self.parts = [
            Part(source: "", owns: OwnedPaths(), document: document.members, moments: Moments(base: .min))
        ]
    }

    public var isEmpty: Bool { self.parts.isEmpty }

    /// A lower bound on the size as JSON.
    var leastSize: Int { self.parts.reduce(0) { $0 + $1.document.leastSize } }

    /// Merges what a source sent into its part.
    ///
    /// - Parameters:
    ///   - owns: the paths that the source owns from now on; nil leaves them as they are.
    ///   - moment: when it was written, milliseconds since 1970.
    /// - Throws: `ChangeFault` with code `.invalidChange` when there are too many sources.
    mutating func merge(
        _ sent: JSONObject, of source: String, owns: OwnedPaths? = nil, at moment: Int64
    ) throws(ChangeFault) {
        try self.change(source, at: moment) { part in
            part.document = part.document.merging(contribution: sent, owned: owns?.claim)
            if let owns { part.owns = owns }
        }
    }

    /// Applies a merge patch to the part of a source.
    mutating func patch(_ patch: JSONObject, of source: String, at moment: Int64) throws(ChangeFault) {
        try self.change(source, at: moment) { $0.document = $0.document.merging(patch) }
    }

    private mutating func change(
        _ source: String, at moment: Int64, _ body: (inout Part) -> Void
    ) throws(ChangeFault) {
        if let index = self.parts.firstIndex(where: { $0.source == source }) {
            let before = self.parts[index]
            body(&self.parts[index])
            self.parts[index].moments = before.moments.moved(
                from: .object(before.document), to: .object(self.parts[index].document), named: "", at: moment)
            return
        }
        guard self.parts.count < Self.limit else {
            throw ChangeFault(
                code: .invalidChange,
                reason: "$.source is \"\(clipped(source))\", but \(Self.limit) other sources contribute to the order, "
                    + "and no more may")
        }
        var part = Part(
            source: source, owns: OwnedPaths(), document: JSONObject(), moments: Moments(base: moment))
        body(&part)
        let place = self.parts.firstIndex { source < $0.source } ?? self.parts.endIndex
        self.parts.insert(part, at: place)
    }
}

extension Contributions {
    /// Returns `{"parts": [{"source": …, "owns": […], "document": {…}, "moments": …}, …], "version": …}`.
    ///
    /// - Parameter version: the version of the order that these contributions make. A Waybill that does not know
    ///   contributions leaves them as they are and writes another version; then they are not read back.
    func json(version: Int64) -> JSON {
        [
            "parts": .array(
                self.parts.map { part in
                    [
                        "document": .object(part.document), "moments": part.moments.json,
                        "owns": .array(part.owns.paths.map { .string($0) }), "source": .string(part.source),
                    ]
                }),
            "version": .integer(version),
        ]
    }

    /// - Returns: nil when they belong to another version.
    /// - Throws: `RecordError` when the JSON is not what `json` makes.
    static func read(_ json: JSON, version: Int64, path: String) throws(RecordError) -> Contributions? {
        let object = try RecordReader(json, path: path)
        guard try object.integer("version", in: OrderState.versionRange) == version else { return nil }
        var contributions = Contributions()
        for (index, entry) in try object.array("parts").prefix(Self.limit).enumerated() {
            let path = "\(path).parts[\(index)]"
            let part = try RecordReader(entry, path: path)
            let owns = try part.array("owns").compactMap(\.string)
            contributions.parts.append(
                Part(
                    source: try part.string("source"), owns: (try? OwnedPaths(owns, path: path)) ?? OwnedPaths(),
                    document: try part.object("document"),
                    moments: try Moments(json: try part.value("moments"), path: "\(path).moments")))
        }
        return contributions
    }
}

extension JSONObject {
    /// Returns this part with its source's data merged into it, without what the source owns and did not send.
    ///
    /// Depth is bounded by that of both, which the parser bounds.
    fileprivate func merging(contribution sent: JSONObject, owned: OwnedPaths.Claim?) -> JSONObject {
        var merged = self
        if let owned {
            for (name, claim) in owned.members where claim.isOwned && sent[name.text] == nil { merged[name.text] = nil }
        }
        for member in sent.members {
            let claim = owned?.members[ByteText(member.name)]
            merged[member.name] = Self.merged(
                claim?.isOwned == true ? nil : self[member.name], member.value, claim, named: member.name)
            if member.name == "webServiceURL" { merged[member.name] = member.value }
        }
        return merged
    }

    private static func merged(
        _ old: JSON?, _ sent: JSON, _ claim: OwnedPaths.Claim?, named name: String
    ) -> JSON? {
        switch sent {
        case .null: return nil
        case .object(let sent):
            return .object((old?.object ?? JSONObject()).merging(contribution: sent, owned: claim))
        case .array(let array):
            guard let elements = IdentifiedElements.of(sent, named: name) else { return .array(array) }
            var merged = old.flatMap { IdentifiedElements.of($0, named: name) } ?? []
            var places = Dictionary(
                merged.enumerated().map { (ByteText($0.element.identifier), $0.offset) }
            ) { first, _ in first }
            for (identifier, element) in elements {
                if let place = places[ByteText(identifier)] {
                    merged[place].element = merged[place].element.merging(contribution: element, owned: claim)
                } else {
                    places[ByteText(identifier)] = merged.count
                    merged.append((identifier, JSONObject().merging(contribution: element, owned: claim)))
                }
            }
            return .array(merged.map { .object($0.element) })
        case .bool, .number, .string: return sent
        }
    }
}
