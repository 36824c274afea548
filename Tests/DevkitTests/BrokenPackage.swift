import Testing

@testable import Devkit

/// A good package with one defect, and the violations that must be reported for it.
struct BrokenPackage: Sendable, CustomTestStringConvertible {
    /// The parts that are regenerated after the change, so that only the change is wrong.
    enum Seal: Sendable { case all, signature, nothing }

    let name: String
    /// The codes of all violations that must be found, in any order.
    let codes: [ViolationCode]
    /// The text that the place or the message of one violation must contain.
    let mention: String
    let seal: Seal
    let change: @Sendable (inout PackageDraft, PackageFixture) throws -> Void
    let spoil: @Sendable (inout ArchiveDraft) throws -> Void

    var testDescription: String { self.name }

    init(
        _ name: String, _ codes: ViolationCode..., mention: String, seal: Seal = .all,
        _ change: @escaping @Sendable (inout PackageDraft, PackageFixture) throws -> Void
    ) {
        self.name = name
        self.codes = codes
        self.mention = mention
        self.seal = seal
        self.change = change
        self.spoil = { _ in }
    }

    /// Creates a case with a defect in the archive around the files.
    init(
        archive name: String, _ codes: ViolationCode..., mention: String,
        _ spoil: @escaping @Sendable (inout ArchiveDraft) throws -> Void
    ) {
        self.name = name
        self.codes = codes
        self.mention = mention
        self.seal = .nothing
        self.change = { _, _ in }
        self.spoil = spoil
    }

    func package(_ fixture: PackageFixture) throws -> [UInt8] {
        var draft = PackageDraft(files: fixture.files)
        try self.change(&draft, fixture)
        if self.seal == .all { draft.remakeManifest() }
        if self.seal != .nothing { try draft.sign(fixture) }
        var archive = ArchiveDraft(draft.files)
        try self.spoil(&archive)
        return archive.bytes
    }
}
