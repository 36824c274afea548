import Model

/// An order with the files that its package has.
struct PackageFiles {
    /// Names only files that are there.
    var order: JSON
    var assets: AssetSet
    /// What was left out for good: JSON path and name.
    var omitted: [String] = []
    /// URLs that may be fetched and whose pictures are not there, each once; they were left out too.
    var missingPictures: [String] = []
}

/// Finds the files of orders: the brand's, and pictures that were fetched.
struct PackageFileFinder: Sendable {
    private let catalog: AssetCatalog
    private let hosts: PictureHosts

    /// What a package has besides order.json and assets, generously: manifest, signature and central directory.
    private static let overhead = 16_384
    private static let overheadPerAsset = 512

    init(_ brand: Brand) {
        self.catalog = AssetCatalog(brand.assets)
        self.hosts = brand.pictureHosts
    }

    /// Finds what an order names. What is not there is left out.
    ///
    /// Pictures never make a package too large: the largest ones are left out then.
    /// - Parameter pictures: those that were fetched, by `PictureHosts.identity`.
    func files(of json: JSON, pictures: [String: PictureFile]) -> PackageFiles {
        var refused: Set<String> = []
        while true {
            let (files, shown) = self.resolve(json, pictures, refused: refused)
            guard let largest = shown.max(by: { ($0.value.size, $0.key) < ($1.value.size, $1.key) }) else {
                return files
            }
            let size =
                files.assets.size + files.order.serialized.count + Self.overhead
                + files.assets.digests.count * Self.overheadPerAsset
            if size <= OrderPackage.sizeLimit { return files }
            refused.insert(largest.key)
        }
    }

    /// - Parameter refused: URLs of pictures that are there and must not be shown.
    /// - Returns: besides the files the pictures among them, by URL.
    private func resolve(
        _ json: JSON, _ pictures: [String: PictureFile], refused: Set<String>
    ) -> (files: PackageFiles, shown: [String: PictureFile]) {
        guard let object = json.object else { return (PackageFiles(order: json, assets: self.catalog.set([])), [:]) }
        var indices: [Int] = []
        var found: [(place: FilePlace, url: String, picture: PictureFile)] = []
        var files = PackageFiles(order: json, assets: .none)
        var missing: [FilePlace] = []
        var renamed: [(place: FilePlace, name: String)] = []
        OrderFiles.forEach(in: object) { name, place in
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
        // With an order provider goes its other logo, which is then named no more.
        indices = []
        var shown: [String: PictureFile] = [:]
        let named = Dictionary(found.map { ($0.picture.name, ($0.url, $0.picture)) }) { first, _ in first }
        if let object = files.order.object {
            OrderFiles.forEach(in: object) { name, _ in
                if let (url, picture) = named[name] { shown[url] = picture }
                indices += self.catalog.family(name) ?? []
            }
        }
        files.assets = self.catalog.set(indices, pictures: shown.values.map(\.listing))
        return (files, shown)
    }

    /// Of a URL only the host is repeated: it may carry a key that gives access to the picture.
    private func describe(_ name: String, _ place: FilePlace, isTooLarge: Bool) -> String {
        guard name.hasPrefix("https://") else { return "\(place.text): \(name)" }
        if isTooLarge { return "\(place.text): a URL whose picture makes the package too large" }
        guard place.isPicture else { return "\(place.text): a URL, where only a file's name may stand" }
        guard let host = PictureHosts.host(of: name) else { return "\(place.text): a URL without a plain host" }
        return "\(place.text): a URL of \(host), which pictures.hosts in brand.json does not list"
    }
}
