extension Contributions {
    /// Returns the document that all parts make together, and descriptions of the elements that are not shown yet,
    /// each with the members that it lacks.
    func composed() -> (document: OrderDocument, withheld: [String]) {
        let voices = self.parts.map { part in
            Voice(
                value: .object(part.document), moments: part.moments, claim: part.owns.claim, source: part.source,
                counts: true)
        }
        var members = Self.object(voices)
        if members["webServiceURL"]?.string != nil { members["webServiceURL"] = nil }
        var withheld: [String] = []
        for name in ["fulfillments", "lineItems", "returns"] {
            guard let value = members[name], let elements = IdentifiedElements.of(value, named: name) else { continue }
            var shown: [JSON] = []
            for (identifier, element) in elements {
                let missing = IdentifiedElements.missing(in: element, ofArray: name)
                if missing.isEmpty {
                    shown.append(.object(element))
                } else {
                    withheld.append("\(name) \(clipped(identifier)) without \(missing.joined(separator: ", "))")
                }
            }
            if shown.count < elements.count { members[name] = shown.isEmpty ? nil : .array(shown) }
        }
        return (OrderDocument(members: members), withheld)
    }

    /// The value of one source at a place of the order.
    private struct Voice {
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
    }

    /// - Parameter voices: sorted by source, with objects as values; if one does not count, what it owns inside does.
    private static func object(_ voices: [Voice]) -> JSONObject {
        var members: [(String, JSON)] = []
        for name in Set(voices.flatMap { $0.value.object?.members.map(\.name) ?? [] }) {
            let isOwned = voices.contains { $0.claim.members[name]?.isOwned == true }
            let inside = voices.compactMap { voice -> Voice? in
                guard let value = voice.value.object?[name] else { return nil }
                let claim = voice.claim.members[name] ?? OwnedPaths.Claim()
                return Voice(
                    value: value, moments: voice.moments[name], claim: claim, source: voice.source,
                    counts: isOwned ? claim.isOwned : voice.counts)
            }
            if let value = Self.value(inside, named: name) { members.append((name, value)) }
        }
        return JSONObject(members)
    }

    /// - Returns: nil if none of the voices counts.
    private static func value(_ voices: [Voice], named name: String) -> JSON? {
        let voices = voices.filter { $0.counts || !$0.claim.members.isEmpty }
        guard let last = voices.filter(\.counts).max(by: { $0.isBefore($1) }) else { return nil }
        if voices.count == 1 { return last.value }
        if voices.allSatisfy({ $0.value.object != nil }) { return .object(Self.object(voices)) }
        let arrays = voices.map { IdentifiedElements.of($0.value, named: name) }
        guard !arrays.contains(where: { $0 == nil }) else { return last.value }
        var order: [String] = []
        var said: [String: [Voice]] = [:]
        for (voice, elements) in zip(voices, arrays) {
            for (identifier, element) in elements ?? [] {
                if voice.counts, said[identifier]?.contains(where: \.counts) != true { order.append(identifier) }
                said[identifier, default: []].append(
                    Voice(
                        value: .object(element), moments: voice.moments[identifier], claim: voice.claim,
                        source: voice.source, counts: voice.counts))
            }
        }
        return .array(order.map { .object(Self.object(said[$0] ?? [])) })
    }
}
