/// A record of `waybill.orders` whose document stays text.
///
/// An order that is restored as it was published needs no tree of its document: its order.json is assembled from the
/// document's own text. That text is only searched for the ends of its members, so a caller of `orderJSON` verifies by
/// a digest that it is what was published, and uses `record()` otherwise.
public struct OrderRecordText: Sendable {
    /// The positions of the record's members.
    private struct Places: Sendable {
        var document = 0..<0
        var members: [JSONScanner.Member] = []
        var fractions: [Range<Int>] = []
        var package: Range<Int>?
        var recent = 0..<0
        var sources = 0..<0
        var token = 0..<0
        var seal: Range<Int>?
        var contributions: Range<Int>?
    }

    public let version: Int64
    public let modifiedEpochSeconds: Int64
    private let bytes: [UInt8]
    /// Nil if the text is not as `OrderRecord.encoded` writes it.
    private let places: Places?

    /// - Throws: `RecordError` as `OrderRecord.decode` for a text that is not as Waybill writes it.
    public init(_ value: [UInt8]) throws(RecordError) {
        self.bytes = value
        if let (version, modified, places) = Self.find(value) {
            (self.version, self.modifiedEpochSeconds, self.places) = (version, modified, places)
        } else {
            let record = try OrderRecord.decode(value)
            (self.version, self.modifiedEpochSeconds, self.places) = (record.version, record.modifiedEpochSeconds, nil)
        }
    }

    private static func find(_ value: [UInt8]) -> (version: Int64, modified: Int64, places: Places)? {
        let bytes = value.span
        var scanner = JSONScanner()
        guard let members = scanner.members(bytes) else { return nil }
        var places = Places()
        var version: Int64?
        var modified: Int64?
        var format: Int64?
        var found = 0
        for member in members {
            switch Self.text(bytes, member.name) {
            case "contributions": places.contributions = member.value
            case "document": places.document = member.value
            case "format": format = Self.integer(bytes, member.value)
            case "modified": modified = Self.integer(bytes, member.value)
            case "package": places.package = member.value
            case "recent": places.recent = member.value
            case "seal": places.seal = member.value
            case "sources": places.sources = member.value
            case "token": places.token = member.value
            case "version": version = Self.integer(bytes, member.value)
            default: continue
            }
            found += 1
        }
        let optional = [places.package, places.seal, places.contributions].count { $0 != nil }
        guard found == 7 + optional, format == RecordError.format, let version, let modified,
            OrderState.versionRange.contains(version),
            OrderState.modificationRange.contains(modified)
        else { return nil }
        var inner = JSONScanner(at: places.document.lowerBound)
        guard let members = inner.members(bytes) else { return nil }
        places.members = members
        places.fractions = inner.fractions
        return (version, modified, places)
    }

    private static func text(_ bytes: Span<UInt8>, _ range: Range<Int>) -> String {
        (try? String(copying: UTF8Span(validating: bytes.extracting(range)))) ?? ""
    }

    /// Returns an integer as `JSONNumber` writes it; nil for any other value.
    private static func integer(_ bytes: Span<UInt8>, _ range: Range<Int>) -> Int64? {
        let text = Self.text(bytes, range)
        return Int64(text).flatMap { String($0) == text ? $0 : nil }
    }

    /// Returns the content of a string without escapes; nil for any other value.
    private func string(_ place: Range<Int>) -> String? {
        let bytes = self.bytes.span
        guard place.count >= 2, bytes[place.lowerBound] == UInt8(ascii: "\"") else { return nil }
        let content = place.dropFirst().dropLast()
        for index in content where bytes[index] == UInt8(ascii: "\\") { return nil }
        return Self.text(bytes, content)
    }

    /// Returns the whole record.
    ///
    /// - Throws: `RecordError` as `OrderRecord.decode`.
    public func record() throws(RecordError) -> OrderRecord { try OrderRecord.decode(self.bytes) }

    /// True if it is known that the version has no package.
    public var isUnpackaged: Bool { self.places.map { $0.package == nil } ?? false }

    /// As in `OrderRecord`; nil also if it has to be read from `record()`.
    public var seal: String? { self.places?.seal.flatMap { self.string($0) } }

    /// As in `RecordedPackage`; nil if they have to be read from `record()`.
    public var assets: [String]? {
        guard let place = self.places?.package, let json = try? JSON(parsing: Array(self.bytes[place])) else {
            return nil
        }
        return (try? RecordedPackage(json: json, path: "$"))?.assets
    }

    private var token: AuthenticationToken? {
        self.places.flatMap { self.string($0.token) }.flatMap { try? AuthenticationToken($0) }
    }

    /// Returns the fields of the order in Redis; nil if they have to be made from `record()`.
    public func fields(key: OrderKey) -> OrderFields? {
        guard let places, let token = self.token,
            let recent = self.string(places.recent), (try? RecentChanges(decoding: Array(recent.utf8))) != nil
        else { return nil }
        let sources = Array(self.bytes[places.sources])
        guard (try? AppliedPositions(decoding: sources)) != nil else { return nil }
        var contributions: [UInt8]?
        if let place = places.contributions {
            let text = Array(self.bytes[place])
            guard let json = try? JSON(parsing: text),
                let read = try? Contributions.read(json, version: self.version, path: "$"), !read.isEmpty
            else { return nil }
            contributions = text
        }
        return OrderFields(
            key: key, token: token, version: self.version, modifiedEpochSeconds: self.modifiedEpochSeconds,
            document: Array(self.bytes[places.document]), sources: sources, recent: Array(recent.utf8),
            contributions: contributions)
    }

    /// Returns the complete order.json as `OrderState.orderJSON` makes it, in UTF-8; nil if `record()` has to make it.
    ///
    /// The result differs if the document has a string that looks like a date-time with a fraction but is none.
    public func orderJSON(key: OrderKey, rules: BrandRules) -> [UInt8]? {
        guard let places, let token = self.token else { return nil }
        let bytes = self.bytes.span
        let added = AddedMembers(
            isStatic: self.value(of: "webServiceURL", in: places.members) == "null",
            schemaVersion: self.impliedSchemaVersion(places.members), key: key, token: token,
            modifiedEpochSeconds: self.modifiedEpochSeconds, rules: rules)
        var output = JSONOutput(capacity: places.document.count + 1024)
        var fractions = places.fractions[...]
        var members = places.members[...]
        for member in added.members {
            while let next = members.first, self.compare(next.name, member.name) < 0 {
                Self.copy(next, bytes, without: &fractions, to: &output)
                members.removeFirst()
            }
            if let next = members.first, self.compare(next.name, member.name) == 0 {
                members.removeFirst()
                if member.isDefault {
                    Self.copy(next, bytes, without: &fractions, to: &output)
                    continue
                }
            }
            guard let value = member.value else { continue }
            output.append(UInt8(ascii: ","))
            output.append(quoted: member.name)
            output.append(UInt8(ascii: ":"))
            value.write(to: &output)
        }
        for member in members { Self.copy(member, bytes, without: &fractions, to: &output) }
        output.append(UInt8(ascii: "}"))
        var result = output.bytes
        // This replaces the first member's comma.
        result[0] = UInt8(ascii: "{")
        return result
    }

    /// Copies a member after a comma.
    ///
    /// - Parameter fractions: the ranges to leave out; loses those before the member's end.
    private static func copy(
        _ member: JSONScanner.Member, _ bytes: Span<UInt8>, without fractions: inout ArraySlice<Range<Int>>,
        to output: inout JSONOutput
    ) {
        output.append(UInt8(ascii: ","))
        var start = member.name.lowerBound - 1
        while let fraction = fractions.first, fraction.lowerBound < member.value.upperBound {
            fractions.removeFirst()
            guard fraction.lowerBound >= start else { continue }
            output.append(json: bytes.extracting(start..<fraction.lowerBound))
            start = fraction.upperBound
        }
        output.append(json: bytes.extracting(start..<member.value.upperBound))
    }

    /// Returns a number below, equal to or above 0 if a name in the text is before, the same as or after another one.
    private func compare(_ place: Range<Int>, _ name: String) -> Int {
        let (bytes, other) = (self.bytes.span, name.utf8.span)
        for offset in 0..<min(place.count, other.count) {
            let difference = Int(bytes[place.lowerBound + offset]) - Int(other[offset])
            if difference != 0 { return difference }
        }
        return place.count - other.count
    }

    private func value(of name: String, in members: [JSONScanner.Member]) -> String? {
        members.first { self.compare($0.name, name) == 0 }.map { Self.text(self.bytes.span, $0.value) }
    }

    /// Returns the same as in `OrderDocument`.
    private func impliedSchemaVersion(_ members: [JSONScanner.Member]) -> Int64 {
        guard let payment = members.first(where: { self.compare($0.name, "payment") == 0 }) else { return 1 }
        var scanner = JSONScanner(at: payment.value.lowerBound)
        guard let inner = scanner.members(self.bytes.span) else { return 1 }
        return OrderDocument.impliedSchemaVersion { name in inner.contains { self.compare($0.name, name) == 0 } }
    }
}
