import Packaging

/// Collects a brand's files one by one and rejects those that Wallet would refuse or silently not show.
///
/// Source: Wallet Orders §2.6, §2.7
struct AssetCollection {
    /// The folder of all files, for messages.
    private let folder: String
    private var assets: [String: Asset] = [:]
    /// Languages by the folder's name, with `.lproj`.
    private var languages: [String: Language] = [:]

    private struct Language {
        var strings: OrderStrings?
        /// The names of all other files, without the folder.
        var files: Set<String> = []
    }

    private static let stringsName = "order.strings"
    /// The most keys or files listed in a message.
    private static let listLimit = 10

    init(folder: String) { self.folder = folder }

    /// Records a folder: the folder of a language must not be empty.
    /// - Parameter name: the path below the collection's folder.
    mutating func add(folder name: String) throws(BrandError) {
        guard name.hasSuffix(LanguageFolder.suffix) else { return }
        guard !name.contains("/") else {
            throw self.error(name, "a folder of a language must be at the top of the assets; move it there")
        }
        if let fault = LanguageFolder.fault(name) { throw self.error(name, fault) }
        if self.languages[name] == nil { self.languages[name] = Language() }
    }

    /// Adds a file.
    /// - Parameter name: the path below the collection's folder, already checked for characters that no archive may
    ///   have.
    mutating func add(_ name: String, _ content: [UInt8]) throws(BrandError) {
        guard self.assets[name] == nil else {
            throw self.error(name, "another file's name looks the same in other Unicode characters; rename one")
        }
        let (language, file) = Self.split(name)
        if file == Self.stringsName || file.hasSuffix("/" + Self.stringsName) {
            guard let language, file == Self.stringsName else {
                throw self.error(name, "\(Self.stringsName) must be in a folder like en.lproj; move it there")
            }
            let strings = try self.strings(name, content)
            self.languages[language, default: Language()].strings = strings
            self.assets[name] = Asset(name: name, content: strings.encoded)
            return
        }
        guard let kind = AssetKind(name: name) else {
            throw self.error(
                name, "Wallet shows files ending in .png, .jpg, .jpeg or .pdf; rename this one or move it elsewhere")
        }
        do {
            try kind.check(content)
        } catch {
            throw self.error(name, "it \(error.message)")
        }
        if let language { self.languages[language, default: Language()].files.insert(file) }
        self.assets[name] = Asset(name: name, content: content)
    }

    /// Returns all assets by name, after the checks that need all of them.
    consuming func finished() throws(BrandError) -> [String: Asset] {
        for name in self.assets.keys.sorted(by: precedes) {
            let plain = Asset.withoutScale(name)
            guard plain == name || self.assets[plain] != nil else {
                throw self.error(name, "there is no \(plain), which is the name that orders use; add it")
            }
        }
        let names = self.languages.keys.sorted(by: precedes)
        try self.checkFiles(names)
        try self.checkKeys(names)
        return self.assets
    }

    /// Checks that every language has the same files, and none of them is at the root, where it would take precedence.
    private func checkFiles(_ names: [String]) throws(BrandError) {
        for name in names {
            for file in (self.languages[name]?.files ?? []).sorted(by: precedes) {
                if self.assets[file] != nil {
                    throw self.error(
                        "\(name)/\(file)", "\(self.folder)/\(file) would be shown in every language instead; remove it")
                }
                for other in names where self.languages[other]?.files.contains(file) == false {
                    throw self.error(
                        other,
                        "it has no \(file), which \(name) has: "
                            + "every language needs the same files in the same resolutions; add it, or remove the other"
                    )
                }
            }
        }
    }

    /// Checks that every language has translations, of the same keys.
    private func checkKeys(_ names: [String]) throws(BrandError) {
        var keys: [String: Set<[UInt16]>] = [:]
        for name in names {
            guard let strings = self.languages[name]?.strings else {
                throw self.error(name, "it has no \(Self.stringsName), which every language needs; add it")
            }
            keys[name] = strings.keys
        }
        // The others are compared with the most common set, so that the wrong one is named.
        let counts = Dictionary(grouping: keys.values) { $0 }.mapValues(\.count)
        let most = counts.values.max() ?? 0
        guard let model = names.first(where: { keys[$0].map { counts[$0] } == most }), let expected = keys[model]
        else { return }
        for name in names {
            let found = keys[name] ?? []
            guard found != expected else { continue }
            var differences: [String] = []
            let missing = expected.subtracting(found)
            let extra = found.subtracting(expected)
            if !missing.isEmpty { differences.append("missing are \(Self.list(missing))") }
            if !extra.isEmpty { differences.append("only here are \(Self.list(extra))") }
            throw self.error(
                "\(name)/\(Self.stringsName)",
                "its keys are not those of \(model)/\(Self.stringsName): \(differences.joined(separator: "; ")); "
                    + "give every language the same keys")
        }
    }

    private func strings(_ name: String, _ content: [UInt8]) throws(BrandError) -> OrderStrings {
        do {
            return try OrderStrings(parsing: content)
        } catch {
            throw self.error(name + (error.line.map { ":\($0)" } ?? ""), error.message)
        }
    }

    private func error(_ name: String, _ message: String) -> BrandError {
        BrandError(.asset, "\(self.folder)/\(name): \(message)")
    }

    /// Returns the language's folder and the rest of a path; without a language the whole path.
    private static func split(_ name: String) -> (language: String?, file: String) {
        guard let slash = name.firstIndex(of: "/"), name[..<slash].hasSuffix(LanguageFolder.suffix) else {
            return (nil, name)
        }
        return (String(name[..<slash]), String(name[name.index(after: slash)...]))
    }

    private static func list(_ keys: Set<[UInt16]>) -> String {
        let sorted = keys.sorted { $0.lexicographicallyPrecedes($1) }
        let shown = sorted.prefix(self.listLimit).map(OrderStringsParser.shown).joined(separator: ", ")
        return sorted.count > self.listLimit ? "\(shown) and \(sorted.count - self.listLimit) more" : shown
    }
}
