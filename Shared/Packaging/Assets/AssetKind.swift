/// The kind of a file in a package, by its suffix: Wallet shows nothing else.
///
/// Source: Wallet Orders §2.6, §2.7
public enum AssetKind: Hashable, Sendable {
    case picture(Picture.Format)
    case pdf

    /// - Parameter name: a file's name; the case of the suffix does not matter.
    /// - Returns: nil for any other suffix.
    public init?(name: String) {
        guard let dot = name.lastIndex(of: "."), name[dot...].firstIndex(of: "/") == nil else { return nil }
        switch name[dot...].dropFirst().lowercased() {
        case "png": self = .picture(.png)
        case "jpg", "jpeg": self = .picture(.jpeg)
        case "pdf": self = .pdf
        default: return nil
        }
    }

    var isPicture: Bool { if case .picture = self { true } else { false } }

    /// Checks that a file's content matches its suffix.
    /// - Throws: `PictureFault`, whose message ends the sentence "it …".
    public func check(_ content: [UInt8]) throws(PictureFault) {
        switch self {
        case .picture(let format):
            let picture = try Picture.inspect(content)
            guard picture.format == format else {
                throw PictureFault("is a \(picture.format.rawValue); its name must end in .\(picture.format.suffix)")
            }
        case .pdf:
            guard Self.isPDF(content) else {
                throw PictureFault("is not a PDF that begins with %PDF and ends with %%EOF; export or copy it again")
            }
        }
    }

    /// Source: ISO 32000-1 §7.5.2, §7.5.5; readers look for the end in the last 1,024 bytes
    private static func isPDF(_ content: [UInt8]) -> Bool {
        let end = content.suffix(1024)
        return content.starts(with: "%PDF-".utf8)
            && end.indices.contains { end[$0...].starts(with: "%%EOF".utf8) }
    }
}
