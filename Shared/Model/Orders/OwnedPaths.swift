/// The members that a source claims for itself alone: `payment`, `fulfillments.status`.
///
/// A path leads through members of objects and through all elements of an array.
public struct OwnedPaths: Hashable, Sendable {
    /// The paths, sorted and without duplicates.
    public let paths: [String]

    public init() { self.paths = [] }

    /// The most paths that a source may own.
    public static let limit = 64
    /// The longest path, in bytes.
    public static let lengthLimit = 200

    /// - Throws: `ChangeFault` with code `.invalidChange`.
    /// - Parameter path: the JSON path of the texts, for error messages.
    public init(_ texts: [String], path: String) throws(ChangeFault) {
        guard texts.count <= Self.limit else {
            throw ChangeFault(
                code: .invalidChange, reason: "\(path) has \(texts.count) names, it may have \(Self.limit)")
        }
        for text in texts where !Self.isPath(text) {
            throw ChangeFault(
                code: .invalidChange,
                reason: "\(path) has \"\(clipped(text))\", it must name members like \"payment\" or "
                    + "\"fulfillments.status\", of at most \(Self.lengthLimit) bytes")
        }
        self.paths = Set(texts.map(ByteText.init)).map(\.text).sorted { $0.precedesInBytes($1) }
    }

    private static func isPath(_ text: String) -> Bool {
        guard text.utf8.count <= Self.lengthLimit else { return false }
        return text.split(separator: ".", omittingEmptySubsequences: false).allSatisfy { name in
            !name.isEmpty && name.utf8.allSatisfy { $0 > 0x20 && $0 != 0x7F && $0 != UInt8(ascii: ",") }
        }
    }

    /// The owned paths as a tree, member by member.
    struct Claim {
        var isOwned = false
        var members: [ByteText: Claim] = [:]
    }

    var claim: Claim {
        var claim = Claim()
        for path in self.paths { claim.add(path.split(separator: ".")[...]) }
        return claim
    }
}

extension OwnedPaths.Claim {
    fileprivate mutating func add(_ path: ArraySlice<Substring>) {
        guard let name = path.first else {
            self.isOwned = true
            return
        }
        self.members[ByteText(String(name)), default: .init()].add(path.dropFirst())
    }
}
