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
        for name in ["fulfillments", "lineItems", "returns"] {
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
    func owns(_ place: [Violation.Step]) -> Bool {
        var claim = self.owns.claim
        for step in place {
            guard case .member(let name) = step, let inside = claim.members[ByteText(name)] else { return false }
            if inside.isOwned { return true }
            claim = inside
        }
        return false
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
        var path = Self.path(violation.place, in: document)
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

    /// Returns the names that lead to a place, as far as sources write there one by one.
    private static func path(_ place: [Violation.Step], in document: OrderDocument) -> [String] {
        var path: [String] = []
        var value = JSON.object(document.members)
        for step in place {
            switch step {
            case .member(let name):
                path.append(name)
                value = value.object?[name] ?? .null
            case .element(let index):
                guard let elements = IdentifiedElements.of(value, named: path.last ?? ""), index < elements.count
                else { return path }
                path.append(elements[index].identifier)
                value = .object(elements[index].element)
            }
        }
        return path
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
