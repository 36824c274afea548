import FoundationEssentials
import Packaging

/// Reads a brand's files: plain ones only, of bounded size, and nothing from outside its directory.
struct BrandDirectory {
    let path: String

    /// brand.json, certificates and keys are a few kilobytes.
    private static let configurationSizeLimit = 1_000_000
    /// A larger file does not fit into any package.
    private static let assetSizeLimit = OrderPackage.sizeLimit
    /// The most bytes of all assets of one brand: they are kept in memory.
    private static let totalSizeLimit = 256_000_000
    private static let assetCountLimit = 10_000
    /// The depth of nested folders. The deepest that is needed is `xx.lproj`.
    private static let depthLimit = 8

    /// Returns the content of a file that brand.json names, or of brand.json itself.
    func file(_ name: String) throws(BrandError) -> [UInt8] {
        try Self.read("\(self.path)/\(name)", limit: Self.configurationSizeLimit)
    }

    /// Returns the content of a file of secrets, wherever it is.
    static func secrets(_ path: String) throws(BrandError) -> [UInt8] {
        try Self.read(path, limit: Self.configurationSizeLimit)
    }

    /// Returns all files below `assets`, by their path relative to it; none if there is no such folder.
    ///
    /// Dot files are skipped: editors and file managers leave them behind. Links are followed as long as they stay in
    /// the brand's directory, so that a mounted volume of Kubernetes works and `/etc/passwd` does not.
    func assets() throws(BrandError) -> [String: Asset] {
        let folder = "\(self.path)/assets"
        guard FileManager.default.fileExists(atPath: folder) else { return [:] }
        let inside = Self.resolve(self.path)
        var collection = AssetCollection(folder: folder)
        var count = 0
        var total = 0
        var open = [(path: folder, prefix: "", depth: 0)]
        while let next = open.popLast() {
            guard next.depth <= Self.depthLimit else {
                throw BrandError(.asset, "\(next.path): folders are nested deeper than \(Self.depthLimit)")
            }
            for name in try Self.names(in: next.path) {
                let path = "\(next.path)/\(name)"
                let real = Self.resolve(path)
                guard real == inside || real.hasPrefix(inside + "/") else {
                    throw BrandError(.asset, "\(path): the link leads out of the brand's directory; copy the file")
                }
                if try Self.type(real) == .typeDirectory {
                    try collection.add(folder: next.prefix + name)
                    open.append((path, "\(next.prefix)\(name)/", next.depth + 1))
                    continue
                }
                let content = try Self.read(path, limit: Self.assetSizeLimit)
                try collection.add(try Self.checkedName(next.prefix + name, path), content)
                count += 1
                total += content.count
                guard count <= Self.assetCountLimit, total <= Self.totalSizeLimit else {
                    throw BrandError(
                        .asset, "\(folder): more than \(Self.assetCountLimit) files or \(Self.totalSizeLimit) bytes")
                }
            }
        }
        return try collection.finished()
    }

    /// Refuses names that ZIP readers interpret differently, and the names of files that every package has.
    private static func checkedName(_ name: String, _ path: String) throws(BrandError) -> String {
        guard name.utf8.count <= 255, name.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F && $0 != UInt8(ascii: "\\") })
        else {
            throw BrandError(
                .asset, "\(path): a name has at most 255 bytes, no backslash and no control characters; rename the file"
            )
        }
        guard !FileName.all.contains(Array(name.utf8)) else {
            throw BrandError(.asset, "\(path): packages have a file of this name already; rename or remove it")
        }
        return name
    }

    /// Returns the names in a folder, sorted, without dot files and leftovers of a Mac's archiver.
    static func names(in folder: String) throws(BrandError) -> [String] {
        do {
            return try FileManager.default.contentsOfDirectory(atPath: folder)
                .filter { !$0.hasPrefix(".") && $0 != "__MACOSX" }.sorted(by: precedes)
        } catch {
            throw BrandError(.file, "\(folder): the folder cannot be read")
        }
    }

    /// Returns the file system's own path of a file: absolute, without links.
    private static func resolve(_ path: String) -> String {
        let real = URL(filePath: path).resolvingSymlinksInPath().path
        return real.count > 1 && real.hasSuffix("/") ? String(real.dropLast()) : real
    }

    /// Returns true if a path is a folder, possibly through a link.
    static func isFolder(_ path: String) -> Bool { (try? self.type(self.resolve(path))) == .typeDirectory }

    private static func type(_ real: String) throws(BrandError) -> FileAttributeType? {
        do {
            return try FileManager.default.attributesOfItem(atPath: real)[.type] as? FileAttributeType
        } catch {
            throw BrandError(.file, "\(real): there is no such file, or it cannot be read")
        }
    }

    private static func read(_ path: String, limit: Int) throws(BrandError) -> [UInt8] {
        let real = self.resolve(path)
        guard try self.type(real) == .typeRegular else { throw BrandError(.file, "\(path): it is not a regular file") }
        let content: Data
        do {
            let size = try FileManager.default.attributesOfItem(atPath: real)[.size] as? Int ?? 0
            guard size <= limit else {
                throw BrandError(.file, "\(path): it has \(size) bytes, at most \(limit) are allowed")
            }
            content = try Data(contentsOf: URL(filePath: real))
        } catch let error as BrandError {
            throw error
        } catch {
            throw BrandError(.file, "\(path): it cannot be read")
        }
        return Array(content)
    }
}
