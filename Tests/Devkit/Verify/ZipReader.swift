import TestKit

/// What an archive holds, read from its central directory and compared with each local header.
///
/// Written apart from Shared/Packaging so that it checks it. A reader that trusts only one of the two directories can
/// be shown another archive than Wallet sees: every disagreement is a violation.
/// Source: APPNOTE.TXT §4.3; what an order package may use: Wallet Orders §2.1
struct ZipReader {
    /// One file with its content decompressed.
    struct Entry: Sendable {
        let name: String
        let content: [UInt8]
        let isCompressed: Bool
    }

    /// Most bytes that one entry may grow to: packages stay below 5 MB.
    static let entryLimit = 16 << 20
    /// Most bytes that all entries together may grow to, so that a small archive cannot fill the memory.
    static let totalLimit = 64 << 20
    /// Most entries that are looked at.
    static let countLimit = 4096

    /// Files in the order of the central directory; those that could not be read are left out.
    private(set) var entries: [Entry] = []
    /// What is wrong, one sentence each.
    private(set) var violations: [String] = []

    private let bytes: [UInt8]
    private var unpacked = 0

    init(_ bytes: [UInt8]) {
        self.bytes = bytes
        do {
            try self.read()
        } catch {
            self.violations.append(error.message)
        }
    }

    private func number16(_ offset: Int) -> Int { Int(self.bytes[offset]) | Int(self.bytes[offset + 1]) << 8 }
    private func number32(_ offset: Int) -> Int { self.number16(offset) | self.number16(offset + 2) << 16 }

    /// The end record has 22 bytes and a comment of up to 65,535. Source: APPNOTE.TXT §4.3.16
    private func endRecord() throws(ToolError) -> Int {
        guard self.bytes.count >= 22 else { throw ToolError(.protocol, "The archive is too short to be a ZIP.") }
        var offset = self.bytes.count - 22
        let last = max(0, offset - 65_535)
        while offset >= last {
            if self.number32(offset) == 0x0605_4B50, offset + 22 + self.number16(offset + 20) == self.bytes.count {
                return offset
            }
            offset -= 1
        }
        throw ToolError(.protocol, "The archive has no end of central directory: it is not a ZIP or it was cut.")
    }

    private mutating func read() throws(ToolError) {
        let end = try self.endRecord()
        let count = self.number16(end + 10)
        let size = self.number32(end + 12)
        let start = self.number32(end + 16)
        if self.number16(end + 20) > 0 { self.violations.append("The archive carries a comment.") }
        guard self.number16(end + 4) == 0, self.number16(end + 6) == 0, self.number16(end + 8) == count else {
            throw ToolError(.protocol, "The archive is one part of several.")
        }
        guard count != 0xFFFF, size != 0xFFFF_FFFF, start != 0xFFFF_FFFF else {
            throw ToolError(.protocol, "The archive is a ZIP64, which packages must not be.")
        }
        guard start + size == end else {
            throw ToolError(.protocol, "The central directory does not end where the end record starts.")
        }
        guard count <= Self.countLimit else { throw ToolError(.protocol, "The archive has \(count) entries.") }
        var spans: [(start: Int, end: Int, name: String)] = []
        var names: Set<String> = []
        var offset = start
        for _ in 0..<count {
            let header = try self.centralHeader(at: offset, directoryEnd: end)
            offset = header.end
            self.check(header.name, &names)
            if let span = self.readEntry(header, directoryStart: start) { spans.append((span.0, span.1, header.name)) }
        }
        if offset != end { self.violations.append("There are bytes behind the last record of the central directory.") }
        self.check(spans, count: count, upTo: start)
    }

    private struct Header {
        var name: String, flags: Int, method: Int, crc: UInt32, compressed: Int, size: Int, local: Int, end: Int
        var nameBytes: ArraySlice<UInt8>
    }

    /// Source: APPNOTE.TXT §4.3.12
    private func centralHeader(at offset: Int, directoryEnd: Int) throws(ToolError) -> Header {
        guard offset + 46 <= directoryEnd, self.number32(offset) == 0x0201_4B50 else {
            throw ToolError(.protocol, "The central directory has fewer records than the end record says.")
        }
        let nameEnd = offset + 46 + self.number16(offset + 28)
        let end = nameEnd + self.number16(offset + 30) + self.number16(offset + 32)
        guard end <= directoryEnd else { throw ToolError(.protocol, "A record of the central directory is cut.") }
        let nameBytes = self.bytes[offset + 46..<nameEnd]
        guard let name = String(validating: nameBytes, as: UTF8.self) else {
            throw ToolError(.protocol, "An entry's name is not UTF-8.")
        }
        return Header(
            name: name, flags: self.number16(offset + 8), method: self.number16(offset + 10),
            crc: UInt32(truncatingIfNeeded: self.number32(offset + 16)), compressed: self.number32(offset + 20),
            size: self.number32(offset + 24), local: self.number32(offset + 42), end: end, nameBytes: nameBytes)
    }

    private mutating func check(_ name: String, _ names: inout Set<String>) {
        if !names.insert(name).inserted { self.violations.append("The name \(quoted(name)) stands twice in the archive.") }
        let isDirectory = name.hasSuffix("/")
        let parts = (isDirectory ? name.dropLast() : name[...]).split(separator: "/", omittingEmptySubsequences: false)
        if name.hasPrefix("/") || name.utf8.dropFirst().first == UInt8(ascii: ":") {
            self.violations.append("The name \(quoted(name)) is an absolute path.")
        } else if parts.contains(where: { $0.isEmpty || $0 == "." || $0 == ".." }) {
            self.violations.append("The name \(quoted(name)) has an empty, '.' or '..' part.")
        }
        if name.contains("\\") { self.violations.append("The name \(quoted(name)) has a backslash.") }
        if name.unicodeScalars.contains(where: { $0.value < 0x20 || $0.value == 0x7F }) {
            self.violations.append("The name \(quoted(name)) has a control character.")
        }
    }

    /// - Returns: where the entry starts and ends, nil if it could not be found.
    private mutating func readEntry(_ header: Header, directoryStart: Int) -> (Int, Int)? {
        let local = header.local
        guard local + 30 <= directoryStart, self.number32(local) == 0x0403_4B50 else {
            self.violations.append("No local header stands where the directory says \(quoted(header.name)) is.")
            return nil
        }
        let nameEnd = local + 30 + self.number16(local + 26)
        let start = nameEnd + self.number16(local + 28)
        guard nameEnd <= directoryStart, start + header.compressed <= directoryStart else {
            self.violations.append("The data of \(quoted(header.name)) reaches into the central directory.")
            return nil
        }
        let span = (local, start + header.compressed)
        let describesSame =
            self.bytes[local + 30..<nameEnd].elementsEqual(header.nameBytes)
            && self.number16(local + 6) == header.flags && self.number16(local + 8) == header.method
        guard describesSame else {
            self.violations.append("Local header and directory disagree about \(quoted(header.name)).")
            return span
        }
        guard header.flags & 0x2041 == 0 else {
            self.violations.append("The entry \(quoted(header.name)) is encrypted.")
            return span
        }
        guard header.flags & 0x08 == 0 else {
            self.violations.append("The entry \(quoted(header.name)) has its sizes behind its data (data descriptor).")
            return span
        }
        guard self.number32(local + 14) == Int(header.crc), self.number32(local + 18) == header.compressed,
            self.number32(local + 22) == header.size
        else {
            self.violations.append("Local header and directory disagree about the size or checksum of \(quoted(header.name)).")
            return span
        }
        if header.flags & 0x800 == 0, !header.name.utf8.allSatisfy({ $0 < 0x80 }) {
            self.violations.append("The name \(quoted(header.name)) is not marked as UTF-8.")
        }
        self.unpack(header, self.bytes[start..<start + header.compressed])
        return span
    }

    private mutating func unpack(_ header: Header, _ data: ArraySlice<UInt8>) {
        guard header.size <= Self.entryLimit, self.unpacked + header.size <= Self.totalLimit else {
            self.violations.append("The entry \(quoted(header.name)) unpacks to \(header.size) bytes, which is too much.")
            return
        }
        self.unpacked += header.size
        let content: [UInt8]
        switch header.method {
        case 0: content = Array(data)
        case 8:
            do {
                content = try Inflate.decompress(data, limit: header.size)
            } catch {
                self.violations.append("The entry \(quoted(header.name)) cannot be unpacked: \(error.message).")
                return
            }
        default:
            self.violations.append(
                "The entry \(quoted(header.name)) uses method \(header.method); only stored and deflate are allowed.")
            return
        }
        guard content.count == header.size else {
            self.violations.append(
                "The entry \(quoted(header.name)) has \(content.count) bytes, the directory says \(header.size).")
            return
        }
        guard CRC32.checksum(content) == header.crc else {
            self.violations.append("The checksum of \(quoted(header.name)) is wrong.")
            return
        }
        if header.name.hasSuffix("/") {
            if !content.isEmpty { self.violations.append("The directory \(quoted(header.name)) has content.") }
        } else {
            self.entries.append(Entry(name: header.name, content: content, isCompressed: header.method == 8))
        }
    }

    /// The entries must lie one behind the other from the first byte on: nothing hides between them.
    private mutating func check(_ spans: [(start: Int, end: Int, name: String)], count: Int, upTo directory: Int) {
        guard spans.count == count else { return }
        var position = 0
        for span in spans.sorted(by: { ($0.start, $0.end) < ($1.start, $1.end) }) {
            if span.start < position {
                self.violations.append("The entry \(quoted(span.name)) overlaps the one before it.")
            } else if span.start > position {
                self.violations.append("There are \(span.start - position) bytes before \(quoted(span.name)) in no entry.")
            }
            position = max(position, span.end)
        }
        if position < directory {
            self.violations.append("There are \(directory - position) bytes before the directory in no entry.")
        }
    }
}

/// A value from outside in a message: in quotes, short, without control characters.
func quoted(_ text: String) -> String {
    let clean = String(String.UnicodeScalarView(text.unicodeScalars.prefix(80).map { $0.value < 0x20 ? "?" : $0 }))
    return "\"\(clean)\(text.unicodeScalars.count > 80 ? "…" : "")\""
}
