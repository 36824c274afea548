/// A receipt or a label of one order that was fetched, as its package and its order's entry in Redis name it.
///
/// Its bytes are a part of the order's entry, under its reference: they are shared with no other order, and end with
/// the package.
public enum OwnDocument {
    /// The sign that begins a reference; the digest of an asset never has it.
    private static let sign = UInt8(ascii: "+")

    /// Returns `+<identifier>.<digest>.<bytes>`.
    ///
    /// - Parameters:
    ///   - identifier: of 16 hexadecimal digits.
    ///   - digest: of the ready ZIP entry, 64 hexadecimal digits.
    ///   - bytes: those of the entry.
    public static func reference(_ identifier: String, digest: String, bytes: Int) -> String {
        "+\(identifier).\(digest).\(bytes)"
    }

    /// Returns true for a reference; false for the digest of an asset.
    public static func isReference(_ text: String) -> Bool { text.utf8.first == Self.sign }

    /// Returns true for a reference to the document with an identifier.
    public static func isReference(_ text: String, to identifier: String) -> Bool {
        text.hasPrefix("+\(identifier).")
    }

    /// Returns the bytes of the ZIP entry; 0 for anything but a reference.
    public static func bytes(of reference: String) -> Int64 {
        // Asked for each asset of each version.
        guard Self.isReference(reference) else { return 0 }
        let parts = reference.utf8.split(separator: UInt8(ascii: "."))
        guard parts.count == 3, parts[0].count == 17, parts[1].count == 64, let bytes = Int64(Substring(parts[2])),
            bytes > 0
        else { return 0 }
        return bytes
    }
}
