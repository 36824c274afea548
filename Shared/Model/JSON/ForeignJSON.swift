/// The reading of JSON texts that other systems write, with what was mended in them.
///
/// A lone surrogate becomes U+FFFD: JavaScript and Python write them where they cut a text in the middle of a
/// character. A member that occurs twice with equal values counts once. Texts that publishers write for Waybill are
/// read strictly.
/// Source: RFC 8259 §4, §8.2
public struct ForeignJSON: Hashable, Sendable {
    /// The value of a member that occurs with several.
    public enum RepeatedMember: String, CaseIterable, Sendable {
        /// The text is refused.
        case refuse
        /// The last one counts, as with most parsers.
        case last
    }

    private let repeated: RepeatedMember
    /// The lone surrogates that were replaced.
    public internal(set) var loneSurrogates = 0
    /// The members that were left out, since one of the same name comes later.
    public private(set) var repeatedMembers = 0

    public init(repeated: RepeatedMember = .refuse) { self.repeated = repeated }

    /// The faults that another process has counted.
    public init(loneSurrogates: Int, repeatedMembers: Int) {
        self.repeated = .refuse
        (self.loneSurrogates, self.repeatedMembers) = (loneSurrogates, repeatedMembers)
    }

    /// The faults that were mended, each with its name in metrics, a sentence's end, and its number.
    public var faults: [(kind: String, sentence: String, count: Int)] {
        [
            ("lone-surrogate", "halves of characters became U+FFFD", self.loneSurrogates),
            ("repeated-member", "members were left out, since one of the same name comes later", self.repeatedMembers),
        ].filter { $0.2 > 0 }
    }

    /// Leaves each name of an object once.
    ///
    /// - Returns: a name whose values differ, for which the text is refused; nil for none.
    mutating func mend(_ object: inout JSONObject) -> String? {
        var members: [JSONObject.Member] = []
        members.reserveCapacity(object.members.count)
        for member in object.members {
            guard let former = members.last, former.key == member.key else {
                members.append(member)
                continue
            }
            if self.repeated == .refuse, former.value != member.value { return member.name }
            members[members.count - 1] = member
        }
        self.repeatedMembers += object.members.count - members.count
        object = JSONObject(sorted: members)
        return nil
    }
}

/// Finding one member of a JSON text of another system without parsing the rest.
public enum JSONScan {
    /// Returns the text of a string or number; nil if there is none.
    ///
    /// All that is beside the way to the member is passed over, so neither its depth, its size nor a fault in it costs
    /// the member. Of members of one name the last one counts. Bounded: each byte is looked at once for each name.
    /// - Parameters:
    ///   - names: lead from the outermost object to the member; `0` to the first element of an array.
    ///   - bytes: UTF-8.
    public static func text(at names: [String], in bytes: [UInt8]) -> String? {
        let start = bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? 3 : 0
        var range = start..<bytes.endIndex
        for name in names {
            let at = self.afterSpace(bytes, range.lowerBound, range.upperBound)
            guard at < range.upperBound else { return nil }
            let found =
                bytes[at] == UInt8(ascii: "[")
                ? self.element(name, in: bytes, at..<range.upperBound)
                : self.member(name, in: bytes, at..<range.upperBound)
            guard let found else { return nil }
            range = found
        }
        var foreign = ForeignJSON()
        switch try? JSON(parsing: Array(bytes[range]), mending: &foreign) {
        case .string(let text)?: return text
        case .number(let number)?: return number.text
        default: return nil
        }
    }

    /// Returns the place of an element of an array that begins a range.
    private static func element(_ place: String, in bytes: [UInt8], _ range: Range<Int>) -> Range<Int>? {
        guard let count = UInt16(place) else { return nil }
        var at = range.lowerBound
        for index in 0...count {
            let start = self.afterSpace(bytes, at + 1, range.upperBound)
            at = self.afterValue(bytes, start, range.upperBound)
            if index == count { return start < at ? start..<at : nil }
            at = self.afterSpace(bytes, at, range.upperBound)
            guard at < range.upperBound, bytes[at] == UInt8(ascii: ",") else { return nil }
        }
        return nil
    }

    /// Returns the place of a member's value in an object that begins a range.
    private static func member(_ name: String, in bytes: [UInt8], _ range: Range<Int>) -> Range<Int>? {
        var at = range.lowerBound
        guard bytes[at] == UInt8(ascii: "{") else { return nil }
        var found: Range<Int>?
        repeat {
            at = self.afterSpace(bytes, at + 1, range.upperBound)
            guard at < range.upperBound, bytes[at] == UInt8(ascii: "\"") else { break }
            let start = at
            at = self.afterString(bytes, at, range.upperBound)
            let isWanted = self.isString(bytes[start..<at], name)
            at = self.afterSpace(bytes, at, range.upperBound)
            guard at < range.upperBound, bytes[at] == UInt8(ascii: ":") else { break }
            let value = self.afterSpace(bytes, at + 1, range.upperBound)
            at = self.afterValue(bytes, value, range.upperBound)
            if isWanted { found = value..<at }
            at = self.afterSpace(bytes, at, range.upperBound)
        } while at < range.upperBound && bytes[at] == UInt8(ascii: ",")
        return found
    }

    private static func isString(_ quoted: ArraySlice<UInt8>, _ text: String) -> Bool {
        if quoted.dropFirst().dropLast().elementsEqual(text.utf8) { return true }
        // Only a name with escapes may be the same text in other bytes.
        guard quoted.contains(UInt8(ascii: "\\")), quoted.count <= 6 * text.utf8.count + 2 else { return false }
        return (try? JSON(parsing: Array(quoted))) == JSON.string(text)
    }

    private static func afterSpace(_ bytes: [UInt8], _ start: Int, _ end: Int) -> Int {
        var at = start
        while at < end, [0x20, 0x0A, 0x0D, 0x09].contains(bytes[at]) { at += 1 }
        return at
    }

    private static func afterString(_ bytes: [UInt8], _ start: Int, _ end: Int) -> Int {
        var at = start + 1
        while at < end, bytes[at] != UInt8(ascii: "\"") { at += bytes[at] == UInt8(ascii: "\\") ? 2 : 1 }
        return min(at + 1, end)
    }

    /// Returns the end of a value: of an object or array that of its last bracket, else the next punctuation.
    private static func afterValue(_ bytes: [UInt8], _ start: Int, _ end: Int) -> Int {
        var at = start
        var depth = 0
        while at < end {
            switch bytes[at] {
            case UInt8(ascii: "\""):
                at = self.afterString(bytes, at, end)
                if depth == 0 { return at }
                continue
            case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
            case UInt8(ascii: "}"), UInt8(ascii: "]"):
                if depth == 0 { return at }
                depth -= 1
                if depth == 0 { return at + 1 }
            case UInt8(ascii: ","): if depth == 0 { return at }
            default: break
            }
            at += 1
        }
        return end
    }
}
