/// The description of an asset in a package's manifest and central directory.
struct AssetListing: Hashable, Sendable {
    let name: String
    /// SHA-256 of the content.
    let contentDigest: String
    let entryDigest: AssetDigest
    let header: ZIPEntry

    /// Bytes of the ready ZIP entry.
    var entrySize: Int { ZIPEntry.localHeaderSize + self.header.name.count + Int(self.header.storedSize) }
}

extension Asset {
    /// The description for packages.
    var listing: AssetListing {
        AssetListing(
            name: self.name, contentDigest: self.contentDigest, entryDigest: self.entryDigest, header: self.header)
    }
}
