import Cryptography
import Model
import TestKit

/// The files of a package that is being changed.
struct PackageDraft {
    var files: [(name: String, content: [UInt8])]

    /// The content of a file; nil removes it, a new name is appended.
    subscript(name: String) -> [UInt8]? {
        get { self.files.first { $0.name == name }?.content }
        set {
            let index = self.files.firstIndex { $0.name == name }
            switch (index, newValue) {
            case (let index?, let content?): self.files[index].content = content
            case (let index?, nil): self.files.remove(at: index)
            case (nil, let content?): self.files.append((name, content))
            case (nil, nil): break
            }
        }
    }

    /// Replaces or removes a value of order.json.
    mutating func order(_ path: String, _ value: JSON?) throws {
        self["order.json"] = try JSON(parsing: self["order.json"] ?? []).setting(value, path).serialized
    }

    /// Replaces or removes a member of manifest.json.
    mutating func manifest(_ name: String, _ value: JSON?) throws {
        var members = try JSON(parsing: self["manifest.json"] ?? []).object ?? JSONObject()
        members[name] = value
        self["manifest.json"] = JSON.object(members).serialized
    }

    /// Regenerates manifest.json if it exists.
    mutating func remakeManifest() {
        guard self["manifest.json"] != nil else { return }
        let listed = self.files.filter { $0.name != "manifest.json" && $0.name != "signature" }
        self["manifest.json"] =
            JSON.object(JSONObject(listed.map { ($0.name, JSON.string(SHA256.hex($0.content))) })).serialized
    }

    /// Regenerates the signature if it exists.
    mutating func sign(_ fixture: PackageFixture, _ pem: [String: [UInt8]]? = nil, later: Int64 = 0) throws {
        guard self["signature"] != nil else { return }
        self["signature"] = try fixture.identity(pem ?? fixture.pem).sign(
            self["manifest.json"] ?? [], signingEpochSeconds: fixture.nowEpochSeconds + later)
    }
}
