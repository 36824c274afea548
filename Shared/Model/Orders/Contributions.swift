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
/// 9. **What an event could not say stays**: of the members in its `keeps`, the value that its source's part has counts
///    as sent; of a source without a part, that of the document before. If there is none, the event is not refused.
/// 10. **A document that existed before** is the part of a source without a name, written before all others, and
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
        /// The members that the last event about them could not say.
        var keeps = KeptMembers()
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
    ///   - keeps: the members that the source could not say.
    ///   - moment: when it was written, milliseconds since 1970.
    /// - Throws: `ChangeFault` with code `.invalidChange` when there are too many sources.
    mutating func merge(
        _ sent: JSONObject, of source: String, owns: OwnedPaths? = nil, keeps: KeptMembers = KeptMembers(),
        at moment: Int64
    ) throws(ChangeFault) {
        // A member that the source could not say in its first event is as in the document before.
        let known = keeps.paths.isEmpty ? nil : self.part(of: source) ?? self.part(of: "")
        try self.change(source, at: moment) { part in
            let claim = owns?.claim
            let said = known.map { keeps.filling(sent, from: $0.document) } ?? sent
            part.document = part.document.merging(contribution: said, owned: claim)
            if let owns { part.owns = owns }
            part.keeps = part.keeps.after(sent, claim: claim, keeping: keeps)
        }
    }

    /// Applies a merge patch to the part of a source.
    mutating func patch(_ patch: JSONObject, of source: String, at moment: Int64) throws(ChangeFault) {
        try self.change(source, at: moment) { part in
            part.document = part.document.merging(patch)
            part.keeps = part.keeps.after(patch, claim: nil, keeping: KeptMembers())
        }
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
                    var members: [(String, JSON)] = [
                        ("document", .object(part.document)), ("moments", part.moments.json),
                        ("owns", .array(part.owns.paths.map { .string($0) })), ("source", .string(part.source)),
                    ]
                    if !part.keeps.paths.isEmpty { members.append(("keeps", part.keeps.json)) }
                    return .object(JSONObject(members))
                }),
            "version": .integer(version),
        ]
    }

    /// - Returns: nil when they belong to another version.
    /// - Throws: `RecordError` when the JSON is not what `json` makes.
    static func read(_ json: JSON, version: Int64, path: String) throws(RecordError) -> Contributions? {
        var object = try JSONMembers(json, path: path, failure: RecordError.init)
        guard try object.integer("version", in: OrderState.versionRange) == version else { return nil }
        var contributions = Contributions()
        for (index, entry) in try object.array("parts").prefix(Self.limit).enumerated() {
            let path = "\(path).parts[\(index)]"
            var part = try JSONMembers(entry, path: path, failure: RecordError.init)
            let owns = try part.array("owns").compactMap(\.string)
            let keeps = part.take("keeps").flatMap { try? KeptMembers($0, path: path) }
            contributions.parts.append(
                Part(
                    source: try part.string("source"), owns: (try? OwnedPaths(owns, path: path)) ?? OwnedPaths(),
                    document: try part.object("document"),
                    moments: try Moments(json: try part.value("moments"), path: "\(path).moments"),
                    keeps: keeps ?? KeptMembers()))
        }
        return contributions
    }
}

extension JSONObject {
    /// Returns this part with its source's data merged into it, without what the source owns and did not send.
    ///
    /// Depth is bounded by that of both, which the parser bounds.
    fileprivate func merging(contribution sent: JSONObject, owned: OwnedPaths.Claim?) -> JSONObject {
        func value(_ old: JSON?, _ member: Member) -> JSON? {
            if member.name == "webServiceURL" { return member.value }
            let claim = owned?.members[member.key]
            return Self.merged(claim?.isOwned == true ? nil : old, member.value, claim, named: member.name)
        }
        return self.joined(with: sent, stays: { owned?.members[$0.key]?.isOwned != true }, value)
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

extension Contributions {
    /// The order that all parts make together.
    struct Composition {
        let document: OrderDocument
        /// Descriptions of what the parts have and the order does not show.
        let withheld: [String]
        /// The reasons why no valid order can be made of the parts; empty for a valid one.
        let violations: [Violation]
    }

    /// The most attempts to make a valid order. One that leaves nothing out succeeds unless sources contradict each
    /// other; each further one leaves out up to `OrderValidator.limit` values.
    private static let attemptLimit = 32

    /// Returns the order that all parts make together.
    ///
    /// It depends on the parts alone, whatever they were before: values that contradict others are left out by rule 8.
    /// - Parameter violations: returns the violations of a document.
    func composed(_ violations: (OrderDocument) -> [Violation]) -> Composition {
        let voices = self.voices
        var omissions = Omissions()
        var contradictions: [String] = []
        var attempt = 1
        while true {
            let (document, incomplete) = Self.document(voices, omissions)
            let found = violations(document)
            var isMended = false
            if attempt < Self.attemptLimit {
                for violation in found where omissions.leaveOut(violation, of: document, voices) {
                    isMended = true
                    contradictions.append("\(violation)")
                }
            }
            if !isMended {
                return Composition(
                    document: document, withheld: incomplete + contradictions, violations: found)
            }
            attempt += 1
        }
    }

    /// The token that was written last, by the source that owns it if one does; nil if no source sent one.
    var token: AuthenticationToken? {
        let name = OwnedMembers.tokenName
        return Self.value(Self.member(name, of: self.voices, Omissions()), named: name, nil)?.string
            .flatMap { try? AuthenticationToken($0) }
    }

    private var voices: [Voice] {
        self.parts.map { part in
            Voice(
                value: .object(part.document), moments: part.moments, claim: part.owns.claim, source: part.source,
                counts: true)
        }
    }

    /// - Returns: the document, and the elements that lack a member, which the document does not show.
    private static func document(
        _ voices: [Voice], _ omissions: Omissions
    ) -> (document: OrderDocument, incomplete: [String]) {
        var members = Self.object(voices, omissions).withoutService
        var incomplete: [String] = []
        for name in IdentifiedElements.arrays {
            guard let value = members[name], let elements = IdentifiedElements.of(value, named: name) else { continue }
            var shown: [JSON] = []
            for (identifier, element) in elements {
                let missing = IdentifiedElements.missing(in: element, ofArray: name)
                if missing.isEmpty {
                    shown.append(.object(element))
                } else {
                    incomplete.append("\(name) \(clipped(identifier)) without \(missing.joined(separator: ", "))")
                }
            }
            if shown.count < elements.count || omissions.members[ByteText(name)] != nil {
                members[name] = shown.isEmpty ? nil : .array(shown)
            }
        }
        return (OrderDocument(members: members), incomplete)
    }

    /// The value of one source at a place of the order.
    fileprivate struct Voice {
        let value: JSON
        let moments: Moments
        /// The paths that the source owns from this place down.
        let claim: OwnedPaths.Claim
        let source: String
        /// True if no other source owns this place.
        let counts: Bool

        /// Returns true if the other value was written later.
        func isBefore(_ other: Voice) -> Bool {
            (self.moments.latest, self.source) < (other.moments.latest, other.source)
        }

        /// Returns the value of an element of this array.
        func element(_ element: JSONObject, _ identifier: String) -> Voice {
            Voice(
                value: .object(element), moments: self.moments[identifier], claim: self.claim, source: self.source,
                counts: self.counts)
        }
    }

    /// - Parameter voices: sorted by source, with objects as values; if one does not count, what it owns inside does.
    private static func object(_ voices: [Voice], _ omissions: Omissions) -> JSONObject {
        var members: [(String, JSON)] = []
        for key in Set(voices.flatMap { $0.value.object?.members.map { ByteText($0.name) } ?? [] }) {
            let name = key.text
            if let value = Self.value(Self.member(name, of: voices, omissions), named: name, omissions.members[key]) {
                members.append((name, value))
            }
        }
        return JSONObject(members)
    }

    /// Returns the values of a member of these objects, without those that are left out.
    fileprivate static func member(_ name: String, of voices: [Voice], _ omissions: Omissions) -> [Voice] {
        let key = ByteText(name)
        let isOwned = voices.contains { $0.claim.members[key]?.isOwned == true }
        return voices.compactMap { voice -> Voice? in
            guard let value = voice.value.object?[name],
                omissions.members[key]?.leavesOut(voice.source) != true
            else { return nil }
            let claim = voice.claim.members[key] ?? OwnedPaths.Claim()
            return Voice(
                value: value, moments: voice.moments[name], claim: claim, source: voice.source,
                counts: isOwned ? claim.isOwned : voice.counts)
        }
    }

    /// - Returns: nil if none of the voices counts.
    private static func value(_ voices: [Voice], named name: String, _ omissions: Omissions?) -> JSON? {
        let voices = voices.filter { $0.counts || !$0.claim.members.isEmpty }
        guard let last = voices.filter(\.counts).max(by: { $0.isBefore($1) }) else { return nil }
        if voices.count == 1, omissions?.members.isEmpty ?? true { return last.value }
        let omissions = omissions ?? Omissions()
        if voices.allSatisfy({ $0.value.object != nil }) { return .object(Self.object(voices, omissions)) }
        let arrays = voices.map { IdentifiedElements.of($0.value, named: name) }
        guard !arrays.contains(where: { $0 == nil }) else { return last.value }
        var order: [ByteText] = []
        var said: [ByteText: [Voice]] = [:]
        for (voice, elements) in zip(voices, arrays) {
            for (identifier, element) in elements ?? [] {
                let key = ByteText(identifier)
                guard omissions.members[key]?.leavesOut(voice.source) != true else { continue }
                if voice.counts, said[key]?.contains(where: \.counts) != true { order.append(key) }
                said[key, default: []].append(voice.element(element, identifier))
            }
        }
        return .array(
            order.map { .object(Self.object(said[$0] ?? [], omissions.members[$0] ?? Omissions())) })
    }
}

extension Contributions.Part {
    /// The document of this part alone.
    var order: OrderDocument { OrderDocument(members: self.document.withoutService) }

    /// Returns true if no other source can write a member.
    func owns(_ place: [Violation.Step]) -> Bool { self.owns.claim.contains(place) }

    /// Returns true if the source could not say a member.
    func keeps(_ place: [Violation.Step]) -> Bool {
        if self.keeps.paths.isEmpty { return false }
        return IdentifiedElements.names(on: place, in: self.document).map { self.keeps.paths.contains($0) } ?? false
    }
}

extension JSONObject {
    /// The members that are part of a document: without the token, and without a service that Waybill adds.
    fileprivate var withoutService: JSONObject {
        var members = self
        members[OwnedMembers.tokenName] = nil
        if members["webServiceURL"]?.string != nil { members["webServiceURL"] = nil }
        return members
    }
}

/// The values that are left out of an order, which would not be valid with them, as a tree by member; elements with
/// identifiers count as members of their array.
private struct Omissions {
    /// The sources whose values are left out here.
    private var sources: Set<String> = []
    /// True if nothing is shown here.
    private var isHidden = false
    private(set) var members: [ByteText: Omissions] = [:]

    func leavesOut(_ source: String) -> Bool { self.isHidden || self.sources.contains(source) }

    /// Leaves out the value that a violation is about: the one that was written last if several sources have one there.
    /// If it is the only one, nothing is shown there; if there is none, what should contain it is not shown.
    ///
    /// - Returns: false if nothing can be left out.
    mutating func leaveOut(
        _ violation: Violation, of document: OrderDocument, _ voices: [Contributions.Voice]
    ) -> Bool {
        var path = IdentifiedElements.path(to: violation.place, in: document.members)
        var isContainer = false
        while !path.isEmpty {
            let counting = self.voices(at: path, of: voices)
            if let last = counting.max(by: { $0.isBefore($1) }) {
                self.add(path[...], source: isContainer || counting.count == 1 ? nil : last.source)
                return true
            }
            path.removeLast()
            isContainer = true
        }
        return false
    }

    private mutating func add(_ path: ArraySlice<String>, source: String?) {
        if let name = path.first {
            self.members[ByteText(name), default: Omissions()].add(path.dropFirst(), source: source)
        } else if let source {
            self.sources.insert(source)
        } else {
            self.isHidden = true
        }
    }

    /// Returns the values that count at a path and are not left out.
    private func voices(at path: [String], of voices: [Contributions.Voice]) -> [Contributions.Voice] {
        var voices = voices
        var omissions = self
        var array = ""
        for name in path {
            if voices.allSatisfy({ $0.value.object != nil }) {
                voices = Contributions.member(name, of: voices, omissions)
            } else {
                let elements = voices.map { IdentifiedElements.of($0.value, named: array) }
                guard !elements.contains(where: { $0 == nil }) else { return [] }
                voices = zip(voices, elements).compactMap { voice, elements in
                    guard let found = elements?.first(where: { $0.identifier.hasSameBytes(as: name) }),
                        omissions.members[ByteText(name)]?.leavesOut(voice.source) != true
                    else { return nil }
                    return voice.element(found.element, name)
                }
            }
            voices = voices.filter { $0.counts || !$0.claim.members.isEmpty }
            omissions = omissions.members[ByteText(name)] ?? Omissions()
            array = name
        }
        return voices.filter(\.counts)
    }
}

extension Contributions {
    /// A part without its values.
    public struct Summary: Hashable, Sendable {
        /// The name of the source; empty for the document that existed before.
        public let source: String
        /// The paths that the source owns, sorted.
        public let owns: [String]
        /// The names of the part's members, sorted.
        public let members: [String]
        /// The members that the last event about them could not say, such as `fulfillments.f1.trackingURL`.
        public let keeps: [String]
        /// The moment of the value that was written last, in milliseconds since 1970; nil if it is not known.
        public let latestMilliseconds: Int64?

        public init(
            source: String, owns: [String], members: [String], keeps: [String] = [], latestMilliseconds: Int64?
        ) {
            self.source = source
            self.owns = owns
            self.members = members
            self.keeps = keeps
            self.latestMilliseconds = latestMilliseconds
        }

        /// True if the source sent the order's token.
        public var hasToken: Bool { self.members.contains(OwnedMembers.tokenName) }
    }

    /// All parts without their values, sorted by source.
    public var summaries: [Summary] {
        self.parts.map { part in
            let latest = part.moments.latest
            return Summary(
                source: part.source, owns: part.owns.paths, members: part.document.members.map(\.name),
                keeps: part.keeps.paths.map { clipped($0.joined(separator: ".")) },
                latestMilliseconds: latest == .min ? nil : latest)
        }
    }
}
