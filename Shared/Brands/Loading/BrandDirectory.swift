import FoundationEssentials
import Operations
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
        try self.read(name, limit: Self.configurationSizeLimit)
    }

    /// Returns the content of a file of secrets, wherever it is.
    static func secrets(_ path: String) throws(BrandError) -> [UInt8] {
        do {
            return try FileContent.read(path, limit: Self.configurationSizeLimit)
        } catch {
            throw BrandError(.file, "\(path): \(error)")
        }
    }

    /// Returns all files below `assets`, by their path relative to it; none if there is no such folder.
    ///
    /// Dot files are skipped: editors and file managers leave them behind. Links are followed as long as they stay in
    /// the brand's directory.
    func assets() throws(BrandError) -> [String: Asset] {
        let folder = "\(self.path)/assets"
        guard FileManager.default.fileExists(atPath: folder) else { return [:] }
        var collection = AssetCollection(folder: folder)
        var count = 0
        var total = 0
        var open = [(prefix: "", names: try self.names("assets") ?? [], depth: 0)]
        while let next = open.popLast() {
            guard next.depth <= Self.depthLimit else {
                throw BrandError(.asset, "\(folder)/\(next.prefix): folders are nested deeper than \(Self.depthLimit)")
            }
            for name in next.names {
                let path = "assets/\(next.prefix)\(name)"
                if let names = try self.names(path) {
                    try collection.add(folder: next.prefix + name)
                    open.append(("\(next.prefix)\(name)/", names, next.depth + 1))
                    continue
                }
                let content = try self.read(path, limit: Self.assetSizeLimit)
                try collection.add(try Self.checkedName(next.prefix + name, "\(self.path)/\(path)"), content)
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
            return Self.shown(try FileManager.default.contentsOfDirectory(atPath: folder))
        } catch {
            throw BrandError(.file, "\(folder): the folder cannot be read")
        }
    }

    /// The same of a folder inside of this one; nil for a file.
    private func names(_ name: String) throws(BrandError) -> [String]? {
        do {
            return try FileContent.names(name, inside: self.path).map(Self.shown)
        } catch {
            throw BrandError(.asset, "\(self.path)/\(name): \(error)")
        }
    }

    private static func shown(_ names: [String]) -> [String] {
        names.filter { !$0.hasPrefix(".") && $0 != "__MACOSX" }.sorted(by: precedes)
    }

    /// Returns true if a path is a folder, possibly through a link.
    static func isFolder(_ path: String) -> Bool {
        var isFolder = false
        return FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) && isFolder
    }

    private func read(_ name: String, limit: Int) throws(BrandError) -> [UInt8] {
        do {
            return try FileContent.read(name, inside: self.path, limit: limit)
        } catch {
            throw BrandError(.file, "\(self.path)/\(name): \(error)")
        }
    }
}
