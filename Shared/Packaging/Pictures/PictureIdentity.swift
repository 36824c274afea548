/// The query parameters of a picture's URL that do not distinguish it from others: for example those of a signature,
/// which differ in each order.
public enum IgnoredQuery: Hashable, Sendable {
    /// The whole URL counts.
    case none
    /// The URL counts up to its query.
    case all
    /// All parameters count except those with these names.
    case names(Set<String>)

    /// The most names.
    public static let countLimit = 100
}

extension PictureHosts {
    /// Returns the identity that distinguishes a picture from others: its URL without the parts that do not matter
    /// under the brand's rules. The URL itself is the one that is fetched.
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
