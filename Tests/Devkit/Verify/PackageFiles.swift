import Packaging

/// The files of a package by their names.
struct PackageFiles: Sendable {
    /// The files that every package has. Source: Wallet Orders §2.1
    static let required = ["order.json", "manifest.json", "signature"]

    private let contents: [String: [UInt8]]
    /// Files that exist and could not be read.
    private let unreadable: Set<String>
    /// All names, sorted.
    let names: [String]

    init(_ archive: ZipReader) {
        self.contents = Dictionary(archive.entries.map { ($0.name, $0.content) }) { first, _ in first }
        self.unreadable = archive.unreadable
        self.names = Set(archive.entries.map(\.name)).union(archive.unreadable).sorted()
    }

    /// The content of a file, nil if it does not exist or could not be read.
    subscript(name: String) -> [UInt8]? { self.contents[name] }

    /// Returns true if a file of this name exists, readable or not.
    func has(_ name: String) -> Bool { self.contents[name] != nil || self.unreadable.contains(name) }

    /// Returns the pixels of the shorter side of a picture, in its largest resolution; nil if there is none.
    func shortSide(ofPicture name: String) -> Int? {
        self.contents.filter { $0.key == name || ScaledName($0.key)?.plain == name }
            .compactMap { try? Picture.inspect($0.value) }.map { min($0.width, $0.height) }.max()
    }

    /// Missing files, and files that should not exist.
    var violations: [PackageViolation] {
        var found: [PackageViolation] = []
        let missing = Self.required.filter { !self.has($0) }
        if let folder = self.enclosingFolder, !missing.isEmpty {
            found.note(
                .enclosingFolder, quoted(folder + "/"), "All files are in this folder; they must be at the root.")
        } else {
            for name in missing {
                found.note(.fileMissing, quoted(name), "The package has no such file; it needs one.")
            }
        }
        for name in self.names where Self.isStray(name) {
            found.note(.fileStray, quoted(name), "Hidden files and those of Finder do not belong into a package.")
        }
        return found
    }

    /// The folder that encloses all files, if it was packed with them; nil otherwise.
    private var enclosingFolder: String? {
        guard let first = self.names.first(where: { $0.hasSuffix("/order.json") })?.dropLast(11) else { return nil }
        return self.names.allSatisfy { $0.hasPrefix("\(first)/") || Self.isStray($0) } ? String(first) : nil
    }

    /// Returns true for hidden files and files left by Finder. Source: Wallet Orders §2.1
    static func isStray(_ name: String) -> Bool {
        name.split(separator: "/").contains { $0.hasPrefix(".") && $0 != "." && $0 != ".." || $0 == "__MACOSX" }
    }
}

/// The kind of a file by its first bytes, regardless of its name.
///
/// Source: PNG (ISO/IEC 15948) §5.2; ITU-T T.81 B.1.1.3; ISO 32000-1 §7.5.2
enum FileKind: String, Sendable {
    case png = "PNG"
    case jpeg = "JPEG"
    case pdf = "PDF"

    init?(_ content: [UInt8]) {
        if content.starts(with: [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]) {
            self = .png
        } else if content.starts(with: [0xFF, 0xD8, 0xFF]) {
            self = .jpeg
        } else if content.starts(with: Array("%PDF-".utf8)) {
            self = .pdf
        } else {
            return nil
        }
    }

    /// The kind that a file with this name should have, nil if the name does not imply one.
    init?(name: String) {
        switch name.split(separator: ".").last?.lowercased() {
        case "png": self = .png
        case "jpg", "jpeg": self = .jpeg
        case "pdf": self = .pdf
        default: return nil
        }
    }
}
