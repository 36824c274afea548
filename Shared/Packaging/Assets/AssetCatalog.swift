import Model
import Synchronization

/// Finds the files for the names in an order, and remembers each combination that occurred.
final class AssetCatalog: Sendable {
    /// All assets of the brand, sorted by name.
    private let assets: [Asset]
    /// For each name that an order may use, the indices of the file and its variants.
    private let families: [String: [Int]]
    /// The names among them that are pictures.
    private let pictureNames: Set<String>
    /// For each name of a picture without its suffix, the possible full names.
    private let stems: [String: [String]]
    /// The files that go into every package: the translations.
    private let always: [Int]
    private let sets = Mutex<[[Int]: AssetSet]>([:])

    /// The most combinations that are remembered. A shop with few pictures has few; any beyond are made again each time
    /// in a few microseconds.
    private static let setLimit = 4096

    init(_ assets: [String: Asset]) {
        let sorted = assets.values.sorted { precedes($0.name, $1.name) }
        self.assets = sorted
        self.always = sorted.indices.filter { sorted[$0].name.hasSuffix(".lproj/order.strings") }
        var families: [String: [Int]] = [:]
        for (index, asset) in sorted.enumerated() {
            let plain = Asset.withoutScale(asset.name)
            // A picture in a language's folder is named as if it were at the root.
            if let slash = plain.firstIndex(of: "/"), plain[..<slash].hasSuffix(LanguageFolder.suffix) {
                families[String(plain[plain.index(after: slash)...]), default: []].append(index)
                continue
            }
            families[plain, default: []].append(index)
            // A file that itself looks like a variant may also be named in full.
            if plain != asset.name { families[asset.name, default: []].append(index) }
        }
        // A variant alone does not make a file: the order names the plain one.
        self.families = families.filter { name, members in
            members.contains { sorted[$0].name == name || sorted[$0].name.hasSuffix(".lproj/\(name)") }
        }
        self.pictureNames = Set(self.families.keys.filter { AssetKind(name: $0)?.isPicture == true })
        var stems: [String: [String]] = [:]
        for name in self.pictureNames {
            // A variant is never meant by an order, with or without its suffix.
            if Asset.withoutScale(name) == name, let dot = name.lastIndex(of: ".") {
                stems[String(name[..<dot]), default: []].append(name)
            }
        }
        self.stems = stems
    }

    /// Returns the indices for a name, nil if the brand does not have that file.
    func family(_ name: String) -> [Int]? { self.families[name] }

    /// Returns the file that an order means, nil if the brand does not have it or it cannot be shown at this place.
    ///
    /// A picture may be named without its suffix, as in Apple's text, if there is only one of that name.
    /// Source: Wallet Orders §2.6
    /// - Returns: the name for order.json, which has the suffix, and the indices.
    func find(_ name: String, for place: FilePlace) -> (name: String, indices: [Int])? {
        guard let indices = self.families[name] else {
            guard place.isPicture, let names = self.stems[name], names.count == 1 else { return nil }
            return self.families[names[0]].map { (names[0], $0) }
        }
        guard !place.isPicture || self.pictureNames.contains(name) else { return nil }
        return (name, indices)
    }

    /// Returns the set of some assets and those that are in every package.
    /// - Parameters:
    ///   - indices: from `family`, in any order, any number of times.
    ///   - pictures: fetched pictures to include, each once; such sets are not remembered, since they differ from order
    ///     to order.
    func set(_ indices: [Int], pictures: [AssetListing] = []) -> AssetSet {
        var unique = self.always + indices
        unique.sort()
        var last = -1
        unique.removeAll { index in
            defer { last = index }
            return index == last
        }
        guard pictures.isEmpty else {
            let own = unique.map { self.assets[$0].listing }
            // If the brand has a file of that very name, the brand's is shown.
            let others = pictures.filter { picture in !own.contains { $0.name == picture.name } }
            return AssetSet((own + others).sorted { precedes($0.name, $1.name) })
        }
        if let known = self.sets.withLock({ $0[unique] }) { return known }
        let made = AssetSet(unique.map { self.assets[$0].listing })
        self.sets.withLock { sets in
            if sets.count < Self.setLimit { sets[unique] = made }
        }
        return made
    }
}

/// The description of an asset in a package's manifest and central directory.
struct AssetListing: Hashable, Sendable {
    let name: String
    /// SHA-256 of the content.
    let contentDigest: String
    let entryDigest: AssetDigest
    let header: ZIPEntry

    /// Bytes of the ready ZIP entry.
    var entrySize: Int { ZIPEntry.localHeaderSize + self.header.name.count + Int(self.header.storedSize) }
}

extension Asset {
    /// The description for packages.
    var listing: AssetListing {
        AssetListing(
            name: self.name, contentDigest: self.contentDigest, entryDigest: self.entryDigest, header: self.header)
    }
}

/// The parts of a package that depend only on its set of assets. Shared by all orders that show the same ones.
final class AssetSet: Sendable {
    /// The entries in the order of the archive.
    let digests: [AssetDigest]
    /// Bytes of all entries.
    let size: Int
    /// The manifest up to the digits of order.json's digest.
    let manifestStart: [UInt8]
    /// The manifest after those digits.
    let manifestEnd: [UInt8]
    /// The assets' part of the central directory.
    let directory: [UInt8]
    /// The files that take most of the space, the largest first; for messages.
    let largest: [(name: String, size: Int)]

    /// No assets at all.
    static let none = AssetSet([])

    /// - Parameter assets: sorted by name, each once.
    init(_ assets: [AssetListing]) {
        self.digests = assets.map(\.entryDigest)
        var start = Array("{".utf8)
        var end = Array("\"".utf8)
        for asset in assets {
            let line = JSON.string(asset.name).serialized + Array(":\"\(asset.contentDigest)\"".utf8)
            if precedes(asset.name, "order.json") {
                start += line
                start.append(UInt8(ascii: ","))
            } else {
                end.append(UInt8(ascii: ","))
                end += line
            }
        }
        self.manifestStart = start + Array("\"order.json\":\"".utf8)
        self.manifestEnd = end + Array("}".utf8)

        var directory: [UInt8] = []
        var offset = 0
        for asset in assets {
            asset.header.appendCentralRecord(offset: UInt32(clamping: offset), to: &directory)
            offset += asset.entrySize
        }
        self.directory = directory
        self.size = offset
        self.largest = assets.sorted { ($1.entrySize, $0.name) < ($0.entrySize, $1.name) }.prefix(5)
            .map { ($0.name, $0.entrySize) }
    }
}

/// Returns true if a name precedes another one in manifest and archive: by bytes, which is the same everywhere.
public func precedes(_ left: String, _ right: String) -> Bool { left.utf8.lexicographicallyPrecedes(right.utf8) }
