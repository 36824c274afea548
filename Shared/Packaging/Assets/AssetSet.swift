import Model

/// The parts of a package that depend only on its set of assets. Shared by all orders that show the same ones.
final class AssetSet: Sendable {
    /// The entries in the order of the archive.
    let digests: [AssetDigest]
    /// Bytes of all entries.
    let size: Int
    /// The manifest up to the digits of order.json's digest.
    let manifestStart: [UInt8]
    /// The manifest after those digits.
    let manifestEnd: [UInt8]
    /// The assets' part of the central directory, offsets counted from the end of the head.
    let directory: [UInt8]
    /// The positions of the offsets in `directory`, with their values.
    let offsets: [(position: Int, value: UInt32)]
    /// The files that take most of the space, the largest first; for messages.
    let largest: [(name: String, size: Int)]

    /// No assets at all.
    static let none = AssetSet([])

    /// - Parameter assets: sorted by name, each once.
    init(_ assets: [AssetListing]) {
        self.digests = assets.map(\.entryDigest)
        var start = Array("{".utf8)
        var end = Array("\"".utf8)
        for asset in assets {
            let line = JSON.string(asset.name).serialized + Array(":\"\(asset.contentDigest)\"".utf8)
            if precedes(asset.name, "order.json") {
                start += line
                start.append(UInt8(ascii: ","))
            } else {
                end.append(UInt8(ascii: ","))
                end += line
            }
        }
        self.manifestStart = start + Array("\"order.json\":\"".utf8)
        self.manifestEnd = end + Array("}".utf8)

        var directory: [UInt8] = []
        var offsets: [(position: Int, value: UInt32)] = []
        var offset = 0
        for asset in assets {
            offsets.append((directory.count + ZIPEntry.offsetPosition, UInt32(clamping: offset)))
            asset.header.appendCentralRecord(offset: 0, to: &directory)
            offset += asset.entrySize
        }
        self.directory = directory
        self.offsets = offsets
        self.size = offset
        self.largest = assets.sorted { ($1.entrySize, $0.name) < ($0.entrySize, $1.name) }.prefix(5)
            .map { ($0.name, $0.entrySize) }
    }
}

/// Returns true if a name precedes another one in manifest and archive: by bytes, which is the same everywhere.
public func precedes(_ left: String, _ right: String) -> Bool { left.utf8.lexicographicallyPrecedes(right.utf8) }
