import Model

/// The text of an epoch: `<name>:<history>`, or `<name>:<type>,<type>:<history>` while orders of types are awaited.
///
/// The types are a part of the value, so a comparison of epochs includes them, and each place of a cluster has them
/// under the same rules. A program that knows only the first form takes the second one for that of another history, and
/// does not report that orders are missing.
enum ViewEpoch {
    /// Returns the part before the history.
    static func text(_ name: String, awaiting types: Set<OrderTypeIdentifier>) -> String {
        types.isEmpty ? name : "\(name):\(types.map(\.rawValue).sorted().joined(separator: ","))"
    }

    /// Returns the types in a whole epoch.
    static func awaited(in epoch: String) -> Set<OrderTypeIdentifier> {
        let parts = epoch.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 3 else { return [] }
        return Set(parts[1].split(separator: ",").compactMap { try? OrderTypeIdentifier(String($0)) })
    }
}
