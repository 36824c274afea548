import Model

/// An order with the files of its package.
struct PackageFiles {
    /// The order, which names only existing files.
    var order: JSON
    var assets: AssetSet
    /// Files that were left out permanently: JSON path and name.
    var omitted: [String] = []
    /// URLs that may be fetched and whose pictures are missing, each once; they were left out too.
    var missingPictures: [String] = []

    /// An upper bound on the bytes besides order.json and assets: manifest, signature and central directory.
    private static let overhead = 16_384
    private static let overheadPerAsset = 512

    /// True if their package is certainly not too large.
    var isWithinLimit: Bool {
        self.assets.size + self.order.serialized.count + Self.overhead
            + self.assets.digests.count * Self.overheadPerAsset <= OrderPackage.sizeLimit
    }
}

/// Finds the files of orders: the brand's, and fetched pictures.
struct PackageFileFinder: Sendable {
    private let catalog: AssetCatalog
    private let hosts: PictureHosts

    init(_ assets: [String: Asset], _ hosts: PictureHosts) {
        self.catalog = AssetCatalog(assets)
        self.hosts = hosts
    }

    /// Returns the files of an earlier package, as `AssetCatalog.set(of:)`.
    func assets(of entries: [AssetDigest]) -> AssetSet? { self.catalog.set(of: entries) }

    /// Finds the files that an order names. Missing ones are left out.
    ///
    /// Pictures never make a package too large: the largest ones are then left out.
    /// - Parameter pictures: the fetched pictures, by `PictureHosts.identity`.
    func files(of json: JSON, pictures: [String: PictureFile]) -> PackageFiles {
        var refused: Set<String> = []
        while true {
            let (files, shown) = self.resolve(json, pictures, refused: refused)
            guard let largest = shown.max(by: { ($0.value.size, $0.key) < ($1.value.size, $1.key) }) else {
                return files
            }
            if files.isWithinLimit { return files }
            refused.insert(largest.key)
        }
    }

    /// - Parameter refused: URLs of existing pictures that must not be shown.
    /// - Returns: the files, and the pictures among them by URL.
    private func resolve(
        _ json: JSON, _ pictures: [String: PictureFile], refused: Set<String>
    ) -> (files: PackageFiles, shown: [String: PictureFile]) {
        guard let object = json.object else { return (PackageFiles(order: json, assets: self.catalog.set([])), [:]) }
        var indices: [Int] = []
        var found: [(place: FilePlace, url: String, picture: PictureFile)] = []
        var files = PackageFiles(order: json, assets: .none)
        var missing: [FilePlace] = []
        var renamed: [(place: FilePlace, name: String)] = []
        object.forEachFile { name, place in
            if let file = self.catalog.find(name, for: place) {
                indices += file.indices
                if file.name != name { renamed.append((place, file.name)) }
            } else if let picture = pictures[self.hosts.identity(of: name)], place.isPicture, !refused.contains(name),
                self.hosts.allows(url: name)
            {
                found.append((place, name, picture))
            } else {
                missing.append(place)
                if place.isPicture, !refused.contains(name), self.hosts.allows(url: name) {
                    if !files.missingPictures.contains(name) { files.missingPictures.append(name) }
                } else {
                    files.omitted.append(self.describe(name, place, isTooLarge: refused.contains(name)))
                }
            }
        }
        guard !missing.isEmpty || !found.isEmpty || !renamed.isEmpty else {
            files.assets = self.catalog.set(indices)
            return (files, [:])
        }
        for (place, name) in renamed { OrderFiles.replace(place.path[...], with: name, in: &files.order) }
        for (place, _, picture) in found { OrderFiles.replace(place.path[...], with: picture.name, in: &files.order) }
        for place in missing { OrderFiles.remove(place.omittedPath, from: &files.order) }
        // An order provider is removed with its other logo, which is then not named any more.
        indices = []
        var shown: [String: PictureFile] = [:]
        let named = Dictionary(found.map { ($0.picture.name, ($0.url, $0.picture)) }) { first, _ in first }
        if let object = files.order.object {
            object.forEachFile { name, _ in
                if let (url, picture) = named[name] { shown[url] = picture }
                indices += self.catalog.family(name) ?? []
            }
        }
        files.assets = self.catalog.set(indices, pictures: shown.values.map(\.listing))
        return (files, shown)
    }

    /// Describes an omitted file. Of a URL only the host is repeated: the rest may contain a key to the picture.
    private func describe(_ name: String, _ place: FilePlace, isTooLarge: Bool) -> String {
        guard name.hasPrefix("https://") else { return "\(place.text): \(name)" }
        if isTooLarge { return "\(place.text): a URL whose picture makes the package too large" }
        guard place.isPicture else { return "\(place.text): it is a URL, only the name of a file is allowed" }
        guard let host = PictureHosts.host(of: name) else { return "\(place.text): a URL without a plain host" }
        return "\(place.text): a URL of \(host), which pictures.hosts in brand.json does not list"
    }
}
