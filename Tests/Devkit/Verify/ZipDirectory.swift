/// The central directory of an archive: its entries and their positions.
///
/// Source: APPNOTE.TXT §4.3.12, §4.3.16
struct ZipDirectory: Sendable {
    /// One record, as the directory has it.
    struct Record: Sendable {
        let name: String
        let nameBytes: ArraySlice<UInt8>
        let flags: Int
        let method: Int
        let checksum: UInt32
        let compressedSize: Int
        let size: Int
        /// The offset of the local header.
        let offset: Int
        /// True if the entry is a UNIX symbolic link.
        let isLink: Bool

        var isFolder: Bool { self.name.hasSuffix("/") }
    }

    /// The most entries that are read.
    static let countLimit = 4096

    /// The archive without bytes before and after it.
    let archive: [UInt8]
    /// The offset of the directory in `archive`.
    let start: Int
    let records: [Record]
    /// Violations in a directory that can be read.
    let violations: [PackageViolation]

    /// - Throws: the violation that prevents the directory from being read.
    init(_ bytes: [UInt8]) throws(PackageViolation) {
        var found: [PackageViolation] = []
        var end = try Self.endRecord(bytes)
        let behind = bytes.count - end - 22 - bytes.number16(end + 20)
        if behind > 0 {
            found.note(.archiveTrailingBytes, "archive", "There are \(behind) bytes after its end; remove them.")
        }
        let count = bytes.number16(end + 10)
        let size = bytes.number32(end + 12)
        let start = bytes.number32(end + 16)
        if bytes.number16(end + 20) > 0 {
            found.note(.archiveComment, "archive", "It carries a comment; leave it out.")
        }
        // The locator of a ZIP64 end record has 20 bytes.
        let hasLocator = end >= 20 && bytes.number32(end - 20) == 0x0706_4B50
        guard count != 0xFFFF, size != 0xFFFF_FFFF, start != 0xFFFF_FFFF, !hasLocator else {
            throw Self.fault(.archiveZIP64, "It is a ZIP64, which packages must not be.")
        }
        guard bytes.number16(end + 4) == 0, bytes.number16(end + 6) == 0, bytes.number16(end + 8) == count else {
            throw Self.fault(.archiveDirectory, "It is one part of several; packages are one file.")
        }
        guard count <= Self.countLimit else {
            throw Self.fault(
                .archiveTooManyEntries, "It has \(count) entries; at most \(Self.countLimit) are looked at.")
        }
        // Text before the archive, such as a PHP warning, HTML or a byte order mark, shifts all offsets.
        let before = end - size - start
        guard before == 0 || before > 0 && size >= 46 && bytes.number32(end - size) == 0x0201_4B50 else {
            throw Self.fault(.archiveDirectory, "The directory does not end where the end record starts.")
        }
        if before > 0 {
            found.note(
                .archiveLeadingBytes, "archive",
                "There are \(before) bytes before its first entry; it must start with \"PK\".")
        }
        let archive = before == 0 && behind <= 0 ? bytes : Array(bytes[before..<bytes.count - max(0, behind)])
        end -= before
        var records: [Record] = []
        var offset = start
        for _ in 0..<count { records.append(try Self.record(archive, &offset, end: end, &found)) }
        if offset != end {
            found.note(.archiveDirectory, "archive", "There are bytes after the last record of the directory.")
        }
        self.archive = archive
        self.start = start
        self.records = records
        self.violations = found
    }

    private static func fault(_ code: ViolationCode, _ message: String) -> PackageViolation {
        PackageViolation(code, "archive", message)
    }

    /// Finds the end record at the end of the bytes; if there is none, the last one with bytes after it.
    ///
    /// An end record has 22 bytes and a comment of up to 65,535 bytes. Source: APPNOTE.TXT §4.3.16
    private static func endRecord(_ bytes: [UInt8]) throws(PackageViolation) -> Int {
        guard bytes.count >= 22 else { throw Self.fault(.archiveUnreadable, "It is too short to be a ZIP.") }
        var last: Int?
        var offset = bytes.count - 22
        while offset >= 0 {
            if bytes.number32(offset) == 0x0605_4B50 {
                let end = offset + 22 + bytes.number16(offset + 20)
                if end == bytes.count { return offset }
                if end < bytes.count, last == nil { last = offset }
            }
            offset -= 1
        }
        if let last { return last }
        throw Self.fault(.archiveUnreadable, "It has no end of central directory: it is not a ZIP, or it was cut.")
    }

    /// Source: APPNOTE.TXT §4.3.12
    private static func record(
        _ bytes: [UInt8], _ offset: inout Int, end: Int, _ found: inout [PackageViolation]
    ) throws(PackageViolation) -> Record {
        guard offset + 46 <= end, bytes.number32(offset) == 0x0201_4B50 else {
            throw Self.fault(.archiveDirectory, "The directory has fewer records than the end record says.")
        }
        let nameEnd = offset + 46 + bytes.number16(offset + 28)
        let extraEnd = nameEnd + bytes.number16(offset + 30)
        let next = extraEnd + bytes.number16(offset + 32)
        guard next <= end else { throw Self.fault(.archiveDirectory, "A record of the directory is cut.") }
        let nameBytes = bytes[offset + 46..<nameEnd]
        guard let name = String(validating: nameBytes, as: UTF8.self) else {
            let readable = String(decoding: nameBytes, as: UTF8.self)
            throw PackageViolation(.entryNameText, quoted(readable), "The name is not UTF-8; write names in UTF-8.")
        }
        if Self.hasZIP64Field(bytes[nameEnd..<extraEnd]) {
            found.note(.archiveZIP64, quoted(name), "The entry has a ZIP64 field, which packages must not use.")
        }
        let isUNIX = bytes.number16(offset + 4) >> 8 == 3
        let record = Record(
            name: name, nameBytes: nameBytes, flags: bytes.number16(offset + 8), method: bytes.number16(offset + 10),
            checksum: UInt32(truncatingIfNeeded: bytes.number32(offset + 16)),
            compressedSize: bytes.number32(offset + 20), size: bytes.number32(offset + 24),
            offset: bytes.number32(offset + 42), isLink: isUNIX && bytes.number32(offset + 38) >> 28 == 0xA)
        offset = next
        return record
    }

    /// Source: APPNOTE.TXT §4.5.1, §4.5.3
    private static func hasZIP64Field(_ extra: ArraySlice<UInt8>) -> Bool {
        var rest = Array(extra)
        while rest.count >= 4 {
            if rest.number16(0) == 1 { return true }
            rest.removeFirst(min(rest.count, 4 + rest.number16(2)))
        }
        return false
    }
}

extension [UInt8] {
    /// Reads two bytes, little-endian. The caller has checked that they exist.
    func number16(_ offset: Int) -> Int { Int(self[offset]) | Int(self[offset + 1]) << 8 }
    /// Reads four bytes, little-endian. The caller has checked that they exist.
    func number32(_ offset: Int) -> Int { self.number16(offset) | self.number16(offset + 2) << 16 }
}
