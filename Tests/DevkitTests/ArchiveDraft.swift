import TestKit

/// An archive written field by field, so that tests can falsify each field.
struct ArchiveDraft {
    struct Entry {
        /// The name in the central directory.
        var name: [UInt8]
        /// The name in the local header; nil for the same.
        var localName: [UInt8]?
        /// The file's bytes as stored in the archive.
        var data: [UInt8]
        var flags: UInt16
        var localFlags: UInt16?
        var method: UInt16 = 0
        var checksum: UInt32
        var size: UInt32
        var localSize: UInt32?
        /// The extra field of the directory's record.
        var extra: [UInt8] = []
        /// The UNIX mode; 0 for none.
        var mode: UInt32 = 0
        /// True if checksum and sizes follow the data.
        var hasDescriptor = false
        /// Bytes in front of the local header that belong to no entry.
        var before: [UInt8] = []

        init(_ name: String, _ content: [UInt8]) {
            self.name = Array(name.utf8)
            self.data = content
            self.flags = name.utf8.allSatisfy { $0 < 0x80 } ? 0 : 0x800
            self.checksum = CRC32.checksum(content)
            self.size = UInt32(content.count)
        }
    }

    var entries: [Entry]
    var before: [UInt8] = []
    var behind: [UInt8] = []
    var comment: [UInt8] = []
    /// The number of entries that the end record counts in excess.
    var countTooMany = 0
    /// The number of bytes that are cut off at the end.
    var cut = 0

    init(_ files: [(name: String, content: [UInt8])]) { self.entries = files.map { Entry($0.name, $0.content) } }

    /// Returns the index of an entry.
    func index(_ name: String) -> Int { self.entries.firstIndex { $0.name == Array(name.utf8) } ?? 0 }

    /// Source: APPNOTE.TXT §4.3.7, §4.3.12, §4.3.16
    var bytes: [UInt8] {
        var bytes: [UInt8] = []
        var directory: [UInt8] = []
        for entry in self.entries {
            bytes += entry.before
            let offset = UInt32(bytes.count)
            let stored = UInt32(entry.data.count)
            let localName = entry.localName ?? entry.name
            let known = !entry.hasDescriptor
            let flags = entry.flags | (entry.hasDescriptor ? 8 : 0)
            bytes += little(0x0403_4B50 as UInt32) + little(20 as UInt16) + little(entry.localFlags ?? flags)
            bytes += little(entry.method) + little(0 as UInt32) + little(known ? entry.checksum : 0)
            bytes += little(known ? stored : 0) + little(known ? entry.localSize ?? entry.size : 0)
            bytes += little(UInt16(localName.count)) + little(0 as UInt16) + localName + entry.data
            if entry.hasDescriptor {
                bytes += little(0x0807_4B50 as UInt32) + little(entry.checksum) + little(stored) + little(entry.size)
            }
            directory += little(0x0201_4B50 as UInt32) + little((entry.mode == 0 ? 0 : 0x300) | 20 as UInt16)
            directory += little(20 as UInt16) + little(flags) + little(entry.method) + little(0 as UInt32)
            directory += little(entry.checksum) + little(stored) + little(entry.size)
            directory += little(UInt16(entry.name.count)) + little(UInt16(entry.extra.count)) + little(0 as UInt16)
            directory += little(0 as UInt32) + little(entry.mode << 16) + little(offset) + entry.name + entry.extra
        }
        let start = UInt32(bytes.count)
        let count = UInt16(self.entries.count + self.countTooMany)
        bytes += directory + little(0x0605_4B50 as UInt32) + little(0 as UInt32) + little(count) + little(count)
        bytes += little(UInt32(directory.count)) + little(start) + little(UInt16(self.comment.count)) + self.comment
        return self.before + bytes.dropLast(self.cut) + self.behind
    }
}

/// Returns the bytes of a number in little-endian order.
private func little<Number: FixedWidthInteger>(_ value: Number) -> [UInt8] {
    (0..<Number.bitWidth / 8).map { UInt8(truncatingIfNeeded: value >> Number($0 * 8)) }
}
