/// The name of a folder of translations: `de.lproj`, `zh-Hans.lproj`, `pt-BR.lproj`.
///
/// Source: Wallet Orders §2.6; RFC 5646 §2.1 (BCP 47): language, script, region, variants
public enum LanguageFolder {
    public static let suffix = ".lproj"

    /// Returns the error in a name, nil if there is none: it must be a tag in the devices' spelling.
    /// - Parameter folder: the name with `.lproj`.
    public static func fault(_ folder: String) -> String? {
        let tag = String(folder.dropLast(self.suffix.count))
        let parts = tag.split(omittingEmptySubsequences: false) { $0 == "-" || $0 == "_" }
        guard let canonical = self.canonical(parts) else {
            return "\"\(tag)\" is not a language tag; name the folder like en.lproj, pt-BR.lproj or zh-Hans.lproj"
        }
        return canonical == tag ? nil : "rename the folder to \(canonical)\(self.suffix)"
    }

    /// Returns the tag with each part in its usual case, nil if it is not a tag.
    private static func canonical(_ parts: [Substring]) -> String? {
        var rest = parts[...]
        guard let language = rest.popFirst(), (2...3).contains(language.utf8.count), language.utf8.allSatisfy(isLetter)
        else { return nil }
        var result = [language.lowercased()]
        if let script = rest.first, script.utf8.count == 4, script.utf8.allSatisfy(isLetter) {
            result.append(script.prefix(1).uppercased() + script.dropFirst().lowercased())
            rest = rest.dropFirst()
        }
        if let region = rest.first, self.isRegion(region) {
            result.append(region.uppercased())
            rest = rest.dropFirst()
        }
        for variant in rest {
            guard self.isVariant(variant) else { return nil }
            result.append(variant.lowercased())
        }
        return result.joined(separator: "-")
    }

    private static func isRegion(_ part: Substring) -> Bool {
        part.utf8.count == 2 && part.utf8.allSatisfy(isLetter)
            || part.utf8.count == 3 && part.utf8.allSatisfy(isDigit)
    }

    private static func isVariant(_ part: Substring) -> Bool {
        let isLong = (5...8).contains(part.utf8.count)
        let isShort = part.utf8.count == 4 && part.utf8.first.map(isDigit) == true
        return (isLong || isShort) && part.utf8.allSatisfy { isLetter($0) || isDigit($0) }
    }
}

private func isLetter(_ byte: UInt8) -> Bool { (byte | 0x20) &- UInt8(ascii: "a") < 26 }

private func isDigit(_ byte: UInt8) -> Bool { byte &- UInt8(ascii: "0") < 10 }
