/// The languages of a package: one folder each, with the same keys and the same pictures.
///
/// Source: Wallet Orders §2.6
enum Localization {
    static let strings = "order.strings"

    /// Returns the folder of a language and the file in it; nil for a file outside such a folder.
    static func parts(of name: String) -> (folder: String, file: String)? {
        let parts = name.split(separator: "/", omittingEmptySubsequences: false)
        guard let end = parts.dropLast().firstIndex(where: { $0.hasSuffix(".lproj") }) else { return nil }
        return (parts[...end].joined(separator: "/"), parts[(end + 1)...].joined(separator: "/"))
    }

    static func violations(_ files: PackageFiles) -> [PackageViolation] {
        var folders: [String: Set<String>] = [:]
        for name in files.names {
            guard let (folder, file) = Self.parts(of: name), !file.isEmpty else { continue }
            folders[folder, default: []].insert(file)
        }
        let names = folders.keys.sorted()
        var found: [PackageViolation] = []
        for folder in names where !Self.isLanguage(folder) {
            found.note(
                .localizationFolder, quoted(folder),
                "It must be at the root and be named by its language, such as de.lproj or zh-Hans.lproj.")
        }
        found += Self.stringsViolations(names, files)
        found += Self.pictureViolations(names, folders, files)
        return found + Self.scaleViolations(files)
    }

    /// Returns true for `de.lproj`, `zh-Hans.lproj`, `it-IT.lproj`.
    /// Source: BCP 47 (RFC 5646 §2.1) as far as folders use it
    private static func isLanguage(_ folder: String) -> Bool {
        let tags = folder.dropLast(6).split(separator: "-", omittingEmptySubsequences: false)
        guard let language = tags.first, (2...3).contains(language.count) else { return false }
        return language.utf8.allSatisfy { ($0 | 0x20) &- UInt8(ascii: "a") < 26 }
            && tags.dropFirst().allSatisfy { tag in
                (2...8).contains(tag.count) && tag.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber) }
            }
    }

    private static func stringsViolations(_ folders: [String], _ files: PackageFiles) -> [PackageViolation] {
        var found: [PackageViolation] = []
        var keys: [(folder: String, keys: Set<String>)] = []
        for folder in folders {
            let name = "\(folder)/\(Self.strings)"
            guard files.has(name) else {
                found.note(
                    .localizationStringsMissing, quoted(folder), "It has no order.strings; every language needs one.")
                continue
            }
            guard let content = files[name] else { continue }
            do throws(StringsFile.Fault) {
                let file = try StringsFile(content)
                if file.isWronglyEncoded {
                    found.note(
                        .localizationEncoding, quoted(name),
                        "It has characters outside ASCII; write it in UTF-16 with a byte order mark.")
                }
                var seen: Set<String> = []
                for key in file.keys where !seen.insert(key).inserted {
                    found.note(.localizationKeyTwice, quoted(name), "The key \(quoted(key)) is in it twice.")
                }
                keys.append((folder, seen))
            } catch {
                if error.isEncoding {
                    found.note(.localizationEncoding, quoted(name), error.message)
                } else {
                    found.note(.localizationStringsSyntax, "\(quoted(name)) line \(error.line)", error.message)
                }
            }
        }
        return found + Self.missing(keys.map { ($0.folder, $0.keys) }, .localizationKeysDiffer, "the key")
    }

    /// Returns one violation for each folder that lacks a file or key that another one has.
    private static func missing(
        _ sets: [(folder: String, members: Set<String>)], _ code: ViolationCode, _ what: String
    ) -> [PackageViolation] {
        let all = sets.reduce(into: Set<String>()) { $0.formUnion($1.members) }
        var found: [PackageViolation] = []
        for (folder, members) in sets {
            let lacks = all.subtracting(members).sorted()
            guard let first = lacks.first else { continue }
            let more = lacks.count > 1 ? " and \(lacks.count - 1) more" : ""
            found.note(code, quoted(folder), "It lacks \(what) \(quoted(first))\(more), which another language has.")
        }
        return found
    }

    private static func pictureViolations(
        _ names: [String], _ folders: [String: Set<String>], _ files: PackageFiles
    ) -> [PackageViolation] {
        let pictures = names.map { ($0, folders[$0, default: []].subtracting([Self.strings])) }
        var found = Self.missing(pictures, .localizationFilesDiffer, "the file")
        let localized = pictures.reduce(into: Set<String>()) { $0.formUnion($1.1) }
        for name in localized.sorted() where files.has(name) {
            found.note(
                .localizationRootShadows, quoted(name),
                "It is also in a language's folder; the one at the root always wins: remove it.")
        }
        return found
    }

    private static func scaleViolations(_ files: PackageFiles) -> [PackageViolation] {
        var found: [PackageViolation] = []
        for name in files.names where !PackageFiles.isStray(name) {
            guard let plain = ScaledName(name)?.plain, !files.has(plain) else { continue }
            found.note(.scaleWithoutPlain, quoted(name), "The plain file \(quoted(plain)) is missing.")
        }
        return found
    }
}
