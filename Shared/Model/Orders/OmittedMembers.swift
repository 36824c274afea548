/// A member that a change of another system had, or should have had, and that its order goes without.
public struct OmittedMember: Hashable, Sendable, CustomStringConvertible {
    /// The names on its path, without elements: `fulfillments.trackingURL`. As many as order.json has members.
    public let name: String
    /// The place of the fault and its reason.
    public let violation: Violation

    /// `fulfillments.trackingURL is left out: $.fulfillments[0].trackingURL must be …`
    public var description: String { "\(self.name) is left out: \(self.violation)" }
}

extension OrderFold {
    /// A document has few kinds of faults, and each pass finds those that the one before had hidden.
    private static let passLimit = 8
    private static let violationLimit = 4096

    /// Returns a change without what is not valid in any order and need not be there; links that are certain are
    /// mended.
    ///
    /// A member that is left out counts as not sent and, for this event, as not owned: `keeps` has its path. Money,
    /// what says which thing an object is, and members that no order has stay as they are. In an object without an
    /// identity of its own, such as a place, a required member takes the object with it. A member that the change owns,
    /// that is required and that it does not have counts as left out too.
    public func tolerating(
        _ change: OrderChange, nowEpochSeconds now: Int64
    ) -> (change: OrderChange, omitted: [OmittedMember]) {
        var change = change
        var omitted: [OmittedMember] = []
        // A missing member stays missing, also if an earlier pass left it out.
        var missing: Set<[Violation.Step]> = []
        for _ in 0..<Self.passLimit {
            guard let part = change.part else { break }
            let violations =
                self.violations(
                    in: OrderDocument(members: part), change.key, self.deriveToken(change.key), nil, now,
                    limit: Self.violationLimit) + self.linkFaults(in: part)
            var repairs: [[Violation.Step]: Repair] = [:]
            for violation in violations where change.isAnswerable(for: violation) {
                guard let repair = Repair(of: violation, in: part, isWhole: change.isWhole) else { continue }
                if violation.isMissing, !missing.insert(violation.place).inserted { continue }
                if repairs[repair.place] == nil { repairs[repair.place] = repair }
            }
            let before = change
            // The last first, so that the places of the others stay right; what is in something that goes, goes with
            // it.
            for repair in repairs.values.sorted(by: { $1.place.precedes($0.place) })
            where !repair.place.indices.contains(where: { repairs[Array(repair.place[..<$0])]?.isOmission == true }) {
                change.apply(repair, in: part)
                guard repair.isOmission else { continue }
                missing.insert(repair.place)
                omitted.append(OmittedMember(name: repair.name, violation: repair.violation))
            }
            if change == before { break }
        }
        return (change, omitted)
    }
}

/// The way to make a document valid of which a value is not.
private struct Repair {
    let violation: Violation
    /// The value that goes, or is written anew.
    let place: [Violation.Step]
    /// The names on the path, without elements.
    let name: String
    /// The value to write; nil: it is left out.
    let value: JSON?

    var isOmission: Bool { self.value == nil }

    /// - Parameter isWhole: true if the document is all of the order, so that an element that lacks a member would make
    ///   it invalid, instead of being hidden until it is complete.
    /// - Returns: nil if the fault cannot be repaired.
    init?(of violation: Violation, in document: JSONObject, isWhole: Bool) {
        guard !violation.isUnknownMember, let levels = Self.levels(to: violation.place, in: document),
            let last = levels.last
        else { return nil }
        if last.depth == violation.place.count - 1, case .text(let format) = last.member.shape,
            let text = last.value?.string, let mended = format.mended(text, files: .namesAndURLs)
        {
            self.init(violation, levels[...], violation.place, .string(mended))
            return
        }
        if violation.isBeyondSchema, last.member.isRequired { return nil }
        for index in levels.indices.reversed() {
            let level = levels[index]
            guard !level.member.isIdentity, !level.member.shape.isMoney else { return nil }
            let place = Array(violation.place[...level.depth])
            let stays = level.member.isRequired && !isWhole && level.isOfOneThing
            if !level.member.isRequired || stays {
                self.init(violation, levels[...index], place, nil)
                return
            }
            if isWhole, level.isElement, level.isOfOneThing {
                self.init(violation, levels[..<index], Array(place.dropLast()), nil)
                return
            }
        }
        return nil
    }

    private init(_ violation: Violation, _ levels: ArraySlice<Level>, _ place: [Violation.Step], _ value: JSON?) {
        self.violation = violation
        self.place = place
        self.name = levels.map(\.member.name).joined(separator: ".")
        self.value = value
    }

    /// A member on the path to a value.
    private struct Level {
        /// The index of its step.
        let depth: Int
        let member: MemberSchema
        let value: JSON?
        /// True if the object that has it is an element of an array.
        let isElement: Bool
        /// True if that object is a thing with an identity, which other events may complete.
        let isOfOneThing: Bool
    }

    /// - Returns: nil for a place that no order has.
    private static func levels(to place: [Violation.Step], in document: JSONObject) -> [Level]? {
        var levels: [Level] = []
        var shape = Shape.object(OrderSchema.order)
        var value: JSON? = .object(document)
        var isElement = false
        var isIdentified = false
        for (depth, step) in place.enumerated() {
            switch step {
            case .member(let name):
                func member(of schema: ObjectSchema) -> MemberSchema? {
                    schema.members.first { $0.name.hasSameBytes(as: name) }
                }
                guard let schema = shape.schemas(of: value?.object).first(where: { member(of: $0) != nil }),
                    let member = member(of: schema)
                else { return nil }
                value = value?.object?[name]
                levels.append(
                    Level(
                        depth: depth, member: member, value: value, isElement: isElement,
                        isOfOneThing: isIdentified || schema.members.contains(where: \.isIdentity)))
                (shape, isElement, isIdentified) = (member.shape, false, false)
            case .element(let index):
                guard case .array(let inner) = shape, let array = value?.array, index < array.count else { return nil }
                isIdentified = IdentifiedElements.of(.array(array), named: levels.last?.member.name ?? "") != nil
                (shape, value, isElement) = (inner, array[index], true)
            }
        }
        return levels
    }
}

extension Shape {
    /// Returns the schemas that an object of this shape may have.
    fileprivate func schemas(of object: JSONObject?) -> [ObjectSchema] {
        switch (self, object?["fulfillmentType"]) {
        case (.amount, _): [OrderSchema.currencyAmount]
        case (.fulfillment, "pickup"?): [OrderSchema.pickup]
        case (.fulfillment, "shipping"?): [OrderSchema.shipping]
        default: self.objects
        }
    }

    /// True for an amount, and for what cannot be without one.
    fileprivate var isMoney: Bool {
        switch self {
        case .amount: true
        case .object(let schema): schema.members.contains { $0.isRequired && $0.shape.isMoney }
        case .array(let shape): shape.isMoney
        case .text, .choice, .number, .wholeNumber, .boolean, .fulfillment: false
        }
    }
}

extension OrderChange {
    /// True if the data is all of the order.
    fileprivate var isWhole: Bool {
        if case .replaced = self.kind { true } else { false }
    }

    /// The document that the change makes of an order that nothing is known of, without what it removes; nil if it says
    /// nothing.
    fileprivate var part: JSONObject? {
        var parts = Contributions()
        switch self.kind {
        case .replaced(let document): return document.members
        case .merged(let data, _): try? parts.merge(data, of: self.source, at: 0)
        case .patched(let patch): try? parts.patch(patch, of: self.source, at: 0)
        case .fulfillmentUpdated(_, let element):
            try? parts.merge(["fulfillments": [.object(element)]], of: self.source, at: 0)
        case .returnUpdated(_, let element):
            try? parts.merge(["returns": [.object(element)]], of: self.source, at: 0)
        case .announced, .removed: return nil
        }
        return parts.part(of: self.source)?.document
    }

    /// Returns true if the change is at fault, whatever other changes say: what is missing may come with them.
    fileprivate func isAnswerable(for violation: Violation) -> Bool {
        if !violation.isMissing || self.isWhole { return true }
        guard case .merged(_, let owns?) = self.kind else { return false }
        return owns.claim.contains(violation.place)
    }

    /// Leaves out a value or writes it anew.
    ///
    /// - Parameter part: the document that the place is in.
    fileprivate mutating func apply(_ repair: Repair, in part: JSONObject) {
        let place = repair.place[...]
        switch self.kind {
        case .replaced(var document):
            document.members.set(repair.value, at: place)
            self.kind = .replaced(document)
        case .merged(var data, let owns):
            data.set(repair.value, at: place)
            self.kind = .merged(data, owns: owns)
            if repair.isOmission, let path = IdentifiedElements.names(on: repair.place, in: part) {
                self.keeps.keep(path)
            }
        case .patched(var patch):
            patch.set(repair.value, at: place)
            self.kind = .patched(patch)
        case .fulfillmentUpdated(let identifier, var element):
            element.set(repair.value, at: place.dropFirst(2))
            self.kind = .fulfillmentUpdated(identifier: identifier, element)
        case .returnUpdated(let identifier, var element):
            element.set(repair.value, at: place.dropFirst(2))
            self.kind = .returnUpdated(identifier: identifier, element)
        case .announced, .removed: break
        }
    }
}

extension JSONObject {
    /// Sets or removes the value at a place that is there.
    mutating func set(_ value: JSON?, at place: ArraySlice<Violation.Step>) {
        guard case .member(let name)? = place.first else { return }
        let rest = place.dropFirst()
        if rest.isEmpty {
            self[name] = value
        } else if let inside = self[name] {
            self[name] = inside.setting(value, at: rest)
        }
    }
}

extension JSON {
    fileprivate func setting(_ value: JSON?, at place: ArraySlice<Violation.Step>) -> JSON {
        switch (self, place.first) {
        case (.object(var object), .member?):
            object.set(value, at: place)
            return .object(object)
        case (.array(var elements), .element(let index)?) where index < elements.count:
            let rest = place.dropFirst()
            if !rest.isEmpty {
                elements[index] = elements[index].setting(value, at: rest)
            } else if let value {
                elements[index] = value
            } else {
                elements.remove(at: index)
            }
            return .array(elements)
        default: return self
        }
    }
}

extension [Violation.Step] {
    /// True if a value comes before another one in a document, or contains it.
    fileprivate func precedes(_ other: [Violation.Step]) -> Bool {
        for (own, theirs) in zip(self, other) where own != theirs {
            switch (own, theirs) {
            case (.element(let own), .element(let theirs)): return own < theirs
            case (.member(let own), .member(let theirs)): return own < theirs
            case (.element, .member): return true
            case (.member, .element): return false
            }
        }
        return self.count < other.count
    }
}
