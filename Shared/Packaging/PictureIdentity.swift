/// Which parameters in the query of a picture's URL do not tell it from others: those of a signature, say, which differ
/// in each order.
enum IgnoredQuery: Hashable, Sendable {
    /// The whole URL counts.
    case none
    /// The URL counts up to its query.
    case all
    /// All parameters count but those of these names.
    case names(Set<String>)

    /// Most names.
    static let countLimit = 100
}

extension PictureHosts {
    /// The identity that tells a picture from others: its URL without what the brand says does not matter. The URL
    /// itself is what is fetched.
    public func identity(of url: String) -> String {
        guard self.ignoredQuery != .none else { return url }
        let end = url.firstIndex(of: "#") ?? url.endIndex
        guard let mark = url[..<end].firstIndex(of: "?") else { return url }
        var kept: [Substring] = []
        if case .names(let names) = self.ignoredQuery {
            kept = url[url.index(after: mark)..<end].split(separator: "&").filter { parameter in
                !names.contains(String(parameter.prefix { $0 != "=" }))
            }
        }
        return url[..<mark] + (kept.isEmpty ? "" : "?" + kept.joined(separator: "&"))
    }
}
