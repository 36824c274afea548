import TestKit

/// The content of an archive, read from its central directory and compared with each local header.
///
/// Independent of Shared/Packaging, in order to check it. A reader that trusts only the directory or only the local
/// headers may see a different archive than Wallet does, so every disagreement is a violation.
/// Source: APPNOTE.TXT §4.3; the features allowed in an order package: Wallet Orders §2.1
struct ZipReader {
    /// One file with its content decompressed.
    struct Entry: Sendable {
        let name: String
        let content: [UInt8]
        let isCompressed: Bool
    }

    /// The most bytes that one entry may expand to: packages stay below 5 MB.
    static let entryLimit = 16 << 20
    /// The most bytes that all entries together may expand to, so that a small archive cannot fill the memory.
    static let totalLimit = 64 << 20

    /// Files in the order of the central directory; those that could not be read are left out.
    private(set) var entries: [Entry] = []
    /// Names of the files that exist and could not be read.
    private(set) var unreadable: Set<String> = []
    /// True if the archive's directory could be read.
    let isReadable: Bool
    /// The violations found.
    private(set) var violations: [PackageViolation] = []

    private let bytes: [UInt8]
    private var unpacked = 0

    init(_ bytes: [UInt8]) {
        do throws(PackageViolation) {
            let directory = try ZipDirectory(bytes)
            self.bytes = directory.archive
            self.isReadable = true
            self.violations = directory.violations
            self.read(directory)
        } catch {
            self.bytes = []
            self.isReadable = false
            self.violations = [error]
        }
    }

    private mutating func read(_ directory: ZipDirectory) {
        var spans: [(start: Int, end: Int, name: String)] = []
        var names: Set<String> = []
        for record in directory.records {
            self.check(record.name, &names)
            if let span = self.readEntry(record, directoryStart: directory.start) {
                spans.append((span.0, span.1, record.name))
            }
            if !record.isFolder, self.entries.last?.name != record.name { self.unreadable.insert(record.name) }
        }
        self.check(spans, count: directory.records.count, upTo: directory.start)
    }

    private mutating func check(_ name: String, _ names: inout Set<String>) {
        let place = quoted(name)
        if !names.insert(name).inserted {
            self.violations.note(.entryNameTwice, place, "The name is twice in the archive; keep one of them.")
        }
        let parts = (name.hasSuffix("/") ? name.dropLast() : name[...]).split(
            separator: "/", omittingEmptySubsequences: false)
        if name.hasPrefix("/") || name.utf8.dropFirst().first == UInt8(ascii: ":") {
            self.violations.note(.entryNamePath, place, "The name is an absolute path; make it relative to the root.")
        } else if parts.contains(where: { $0.isEmpty || $0 == "." || $0 == ".." }) {
            self.violations.note(.entryNamePath, place, "The name has an empty, '.' or '..' part.")
        }
        if name.contains("\\") {
            self.violations.note(.entryNamePath, place, "The name has a backslash; folders are divided by '/'.")
        }
        if name.unicodeScalars.contains(where: { $0.value < 0x20 || $0.value == 0x7F }) {
            self.violations.note(.entryNameText, place, "The name has a control character.")
        }
    }

    /// - Returns: the start and the end of the entry, nil if it could not be found.
    private mutating func readEntry(_ record: ZipDirectory.Record, directoryStart: Int) -> (Int, Int)? {
        let place = quoted(record.name)
        let local = record.offset
        guard local + 30 <= directoryStart, self.bytes.number32(local) == 0x0403_4B50 else {
            self.violations.note(.entryLost, place, "No local header is where the directory says.")
            return nil
        }
        let nameEnd = local + 30 + self.bytes.number16(local + 26)
        let start = nameEnd + self.bytes.number16(local + 28)
        let end = start + record.compressedSize
        guard nameEnd <= directoryStart, end <= directoryStart else {
            self.violations.note(.entryLost, place, "The data reaches into the central directory.")
            return nil
        }
        let describesSame =
            self.bytes[local + 30..<nameEnd].elementsEqual(record.nameBytes)
            && self.bytes.number16(local + 6) == record.flags && self.bytes.number16(local + 8) == record.method
        guard describesSame else {
            self.violations.note(
                .entryHeadersDiffer, place, "Local header and directory disagree about name, flags or method.")
            return (local, end)
        }
        guard record.flags & 0x2041 == 0 else {
            self.violations.note(.entryEncrypted, place, "The entry is encrypted, Wallet has no password.")
            return (local, end)
        }
        if record.flags & 0x08 != 0 {
            self.violations.note(
                .entryDataDescriptor, place, "Sizes are after the data (data descriptor); write them before it.")
            self.unpack(record, self.bytes[start..<end])
            return (local, self.descriptorEnd(end, directoryStart))
        }
        guard self.bytes.number32(local + 14) == Int(record.checksum),
            self.bytes.number32(local + 18) == record.compressedSize, self.bytes.number32(local + 22) == record.size
        else {
            self.violations.note(
                .entryHeadersDiffer, place, "Local header and directory disagree about size or checksum.")
            return (local, end)
        }
        if record.flags & 0x800 == 0, !record.name.utf8.allSatisfy({ $0 < 0x80 }) {
            self.violations.note(.entryNameText, place, "The name is not marked as UTF-8 (bit 11 of the flags).")
        }
        self.unpack(record, self.bytes[start..<end])
        return (local, end)
    }

    /// Returns the end of a data descriptor, which has 12 bytes, or 16 with its optional signature.
    /// Source: APPNOTE.TXT §4.3.9
    private func descriptorEnd(_ end: Int, _ directoryStart: Int) -> Int {
        let isMarked = end + 16 <= directoryStart && self.bytes.number32(end) == 0x0807_4B50
        return min(end + (isMarked ? 16 : 12), directoryStart)
    }

    private mutating func unpack(_ record: ZipDirectory.Record, _ data: ArraySlice<UInt8>) {
        let place = quoted(record.name)
        guard !record.isLink else {
            self.violations.note(.entryLink, place, "The entry is a symbolic link; put the file itself in.")
            return
        }
        guard record.size <= Self.entryLimit, self.unpacked + record.size <= Self.totalLimit else {
            self.violations.note(.entryTooLarge, place, "It unpacks to \(record.size) bytes, which is too much.")
            return
        }
        self.unpacked += record.size
        let content: [UInt8]
        switch record.method {
        case 0: content = Array(data)
        case 8:
            do {
                content = try Inflate.decompress(data, limit: record.size)
            } catch {
                self.violations.note(.entryDamaged, place, "It cannot be unpacked: \(error.message).")
                return
            }
        default:
            self.violations.note(
                .entryMethod, place, "It uses method \(record.method); only stored (0) and deflate (8) are allowed.")
            return
        }
        guard content.count == record.size else {
            self.violations.note(
                .entryDamaged, place, "It has \(content.count) bytes, the directory says \(record.size).")
            return
        }
        guard CRC32.checksum(content) == record.checksum else {
            self.violations.note(.entryChecksum, place, "The CRC-32 of its content is not the one in the headers.")
            return
        }
        guard !record.isFolder else {
            if !content.isEmpty { self.violations.note(.entryDamaged, place, "It is a folder and has content.") }
            return
        }
        self.entries.append(Entry(name: record.name, content: content, isCompressed: record.method == 8))
    }

    /// Checks that the entries are adjacent from the first byte on, so that nothing is hidden between them.
    private mutating func check(_ spans: [(start: Int, end: Int, name: String)], count: Int, upTo directory: Int) {
        guard spans.count == count else { return }
        var position = 0
        for span in spans.sorted(by: { ($0.start, $0.end) < ($1.start, $1.end) }) {
            if span.start < position {
                self.violations.note(.entryOverlap, quoted(span.name), "It overlaps the entry before it.")
            } else if span.start > position {
                self.violations.note(
                    position == 0 ? .archiveLeadingBytes : .archiveStrayBytes, "archive",
                    "There are \(span.start - position) bytes before \(quoted(span.name)) that belong to no entry.")
            }
            position = max(position, span.end)
        }
        if position < directory {
            self.violations.note(
                .archiveStrayBytes, "archive",
                "There are \(directory - position) bytes before the directory that belong to no entry.")
        }
    }
}
