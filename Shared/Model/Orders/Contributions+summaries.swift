extension Contributions {
    /// A part without its values.
    public struct Summary: Hashable, Sendable {
        /// The name of the source; empty for the document that existed before.
        public let source: String
        /// The paths that the source owns, sorted.
        public let owns: [String]
        /// The names of the part's members, sorted.
        public let members: [String]
        /// The moment of the value that was written last, in milliseconds since 1970; nil if it is not known.
        public let latestMilliseconds: Int64?

        public init(source: String, owns: [String], members: [String], latestMilliseconds: Int64?) {
            self.source = source
            self.owns = owns
            self.members = members
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
                latestMilliseconds: latest == .min ? nil : latest)
        }
    }
}
