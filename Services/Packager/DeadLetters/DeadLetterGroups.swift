import ArgumentParser
import Model
import Operations

/// The counts of dead letters by some of their parts. Bounded: groups after the first `most` are counted together.
struct DeadLetterGroups {
    /// A part of a dead letter that has few values.
    enum Part: String, CaseIterable {
        case code, reason, brand

        fileprivate func value(of line: DeadLetterFormatter.Line) -> String {
            switch self {
            case .code: line.code
            case .reason: ForeignText.shortened(line.reason, 100)
            case .brand: String(line.order.prefix { $0 != "/" })
            }
        }
    }

    static let most = 1000
    private static let others = "(others)"

    private let parts: [Part]
    private var counts: [[String]: Int] = [:]

    /// - Parameter text: names of parts, separated by commas. Nil if one of them is not a part, or given twice.
    init?(_ text: String) {
        let parts = text.split(separator: ",", omittingEmptySubsequences: false).map { Part(rawValue: String($0)) }
        guard !parts.contains(nil), Set(parts).count == parts.count else { return nil }
        self.parts = parts.compactMap(\.self)
    }

    mutating func add(_ line: DeadLetterFormatter.Line) {
        let values = self.parts.map { $0.value(of: line) }
        let isKnown = self.counts[values] != nil || self.counts.count < Self.most
        self.counts[isKnown ? values : self.parts.map { _ in Self.others }, default: 0] += 1
    }

    /// The groups, the largest first.
    private var sorted: [(values: [String], count: Int)] {
        self.counts.map { ($0.key, $0.value) }.sorted {
            $0.1 != $1.1 ? $0.1 > $1.1 : $0.0.lexicographicallyPrecedes($1.0)
        }
    }

    /// One line for each group: the number and the parts, with two spaces between them.
    var text: String {
        self.sorted.map { "\($0.count)  \($0.values.joined(separator: "  "))" }.joined(separator: "\n")
    }

    /// The same as one JSON object for each group.
    var json: [JSON] {
        self.sorted.map { group in
            var object: JSONObject = ["count": .integer(Int64(group.count))]
            for (part, value) in zip(self.parts, group.values) { object[part.rawValue] = .string(value) }
            return .object(object)
        }
    }
}
