import Synchronization

/// Finds what belongs to the names in an order, and remembers each combination that occurred.
final class AssetCatalog: Sendable {
    /// All assets of the brand, sorted by name.
    private let assets: [Asset]
    /// For each name an order may use, the indices of the file and its variants.
    private let families: [String: [Int]]
    /// The files that go into every package: the translations.
    private let always: [Int]
    private let sets = Mutex<[[Int]: AssetSet]>([:])

    /// Combinations that are remembered. A shop with few pictures has few; beyond that they are made anew each time
    /// in a few microseconds.
    private static let setLimit = 4096

    init(_ assets: [String: Asset]) {
        let sorted = assets.values.sorted { precedes($0.name, $1.name) }
        self.assets = sorted
        self.always = sorted.indices.filter { sorted[$0].name.hasSuffix(".lproj/order.strings") }
        var families: [String: [Int]] = [:]
        for (index, asset) in sorted.enumerated() {
            let plain = Self.withoutScale(asset.name)
            families[plain, default: []].append(index)
            // A picture in a language's folder stands in for the one at the root, under the same name.
            if let slash = plain.firstIndex(of: "/"), plain[..<slash].hasSuffix(".lproj") {
                families[String(plain[plain.index(after: slash)...]), default: []].append(index)
            }
            // A file that itself looks like a variant may also be named as it is.
            if plain != asset.name { families[asset.name, default: []].append(index) }
        }
        // A variant alone does not make a file: the order names the plain one.
        self.families = families.filter { name, members in
            members.contains { sorted[$0].name == name || sorted[$0].name.hasSuffix(".lproj/\(name)") }
        }
    }

    /// The indices for a name, nil if the brand does not have that file.
    func family(_ name: String) -> [Int]? { self.families[name] }

    /// The set of some assets and those that are always there.
    /// - Parameter indices: from `family`, in any order, any number of times.
    func set(_ indices: [Int]) -> AssetSet {
        var unique = self.always + indices
        unique.sort()
        var last = -1
        unique.removeAll { index in
            defer { last = index }
            return index == last
        }
        if let known = self.sets.withLock({ $0[unique] }) { return known }
        let made = AssetSet(unique.map { self.assets[$0] })
        self.sets.withLock { sets in
            if sets.count < Self.setLimit { sets[unique] = made }
        }
        return made
    }

    /// `logo.png` for `logo@2x.png` and `logo@3x.png`.
    ///
    /// Source: Wallet Orders §2.6
    private static func withoutScale(_ name: String) -> String {
        let dot = name.lastIndex(of: ".") ?? name.endIndex
        let stem = name[..<dot]
        guard stem.hasSuffix("@2x") || stem.hasSuffix("@3x") else { return name }
        return String(stem.dropLast(3)) + name[dot...]
    }
}
