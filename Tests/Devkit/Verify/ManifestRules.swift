import Cryptography
import Model

/// The rules for manifest.json: every other file with its SHA-256 in lower-case hexadecimal digits.
///
/// Source: Wallet Orders §2.3
enum ManifestRules {
    static func violations(_ bytes: [UInt8], files: PackageFiles) -> [PackageViolation] {
        let members: JSONObject
        do throws(JSONError) {
            let json = try JSON(parsing: bytes)
            guard let object = json.object else {
                return [
                    PackageViolation(.manifestUnreadable, "manifest.json", "It is \(json.kind) instead of an object.")
                ]
            }
            members = object
        } catch {
            return [PackageViolation(.manifestUnreadable, "manifest.json", "It is no JSON: \(error).")]
        }
        var found: [PackageViolation] = []
        for member in members.members {
            let place = "manifest.json $[\(quoted(member.name))]"
            if member.name.hasSuffix("/") || ["manifest.json", "signature"].contains(member.name) {
                found.note(
                    .manifestName, place, "Folders, manifest.json and signature are not listed; take the member out.")
            } else if !files.has(member.name) {
                found.note(
                    .manifestFileMissing, place, "No such file is in the package; add it or take the member out.")
            } else if let content = files[member.name] {
                found += Self.violation(of: member.value, content: content, place).map { [$0] } ?? []
            }
        }
        for name in files.names where members[name] == nil {
            // A stray file has already been reported.
            guard name != "manifest.json", name != "signature", !PackageFiles.isStray(name) else { continue }
            found.note(
                .manifestFileUnlisted, quoted(name), "The file is not in manifest.json; list every file.")
        }
        return found
    }

    private static func violation(of value: JSON, content: [UInt8], _ place: String) -> PackageViolation? {
        guard let digest = value.string else {
            return PackageViolation(.manifestDigestForm, place, "It must be a string, it is \(value.kind).")
        }
        let right = SHA256.hex(content)
        if digest == right { return nil }
        let isHexadecimal = digest.utf8.allSatisfy { byte in
            byte &- UInt8(ascii: "0") < 10 || (byte | 0x20) &- UInt8(ascii: "a") < 6
        }
        if isHexadecimal, digest.utf8.count == 40 {
            return PackageViolation(
                .manifestDigestSHA1, place,
                "It has 40 digits as SHA-1 has (Wallet Passes); orders use SHA-256, 64 digits.")
        }
        guard isHexadecimal, digest.utf8.count == 64 else {
            return PackageViolation(
                .manifestDigestForm, place, "It must be 64 hexadecimal digits, the SHA-256 of the file.")
        }
        if digest.lowercased() == right {
            return PackageViolation(.manifestDigestForm, place, "Its digits must be in lower case.")
        }
        return PackageViolation(
            .manifestDigestWrong, place,
            "It is not the SHA-256 of the file, which is \(right); was it changed afterwards?")
    }
}
