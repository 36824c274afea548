import Testing

@testable import Devkit

@Suite(.timeLimit(.minutes(1)))
struct ZipReaderTests {
    static func read(_ name: String) throws -> ZipReader {
        ZipReader(try #require(try PythonZip.archives.get()[name], "\(name)"))
    }

    @Test(arguments: [
        ("good", ["order.json", "logo.png"]), ("good, stored", ["order.json", "logo.png"]), ("good, empty", []),
        ("good, empty file", ["a"]), ("good, folder", ["en.lproj/order.strings"]), ("good, UTF-8 name", ["café.png"]),
    ])
    func anArchiveByPythonIsRead(_ name: String, _ names: [String]) throws {
        let archive = try Self.read(name)
        #expect(archive.violations == [])
        #expect(archive.entries.map(\.name) == names)
    }

    @Test func storedAndDeflatedContentIsUnpacked() throws {
        for (name, isCompressed) in [("good", true), ("good, stored", false)] {
            let entries = try Self.read(name).entries
            #expect(entries.first?.content == Array(String(repeating: "order ", count: 400).utf8))
            #expect(entries.last?.content == Array(0...255))
            #expect(entries.first?.isCompressed == isCompressed)
        }
    }

    /// Each archive has this violation first or last: misplaced entries may justify two.
    @Test(
        arguments: [
            ("duplicate name", .entryNameTwice, "is twice"),
            ("name ../a", .entryNamePath, "'..' part"),
            ("name a/../b", .entryNamePath, "'..' part"),
            ("name a/./b", .entryNamePath, "'.' or"),
            ("name a//b", .entryNamePath, "an empty"),
            ("name /etc/passwd", .entryNamePath, "absolute path"),
            ("name C:/a", .entryNamePath, "absolute path"),
            ("name a\\b", .entryNamePath, "backslash"),
            ("name a\nb", .entryNameText, "control character"),
            ("entry that starts inside another", .entryLost, "No local header"),
            ("two names for one entry", .entryHeadersDiffer, "disagree"),
            ("overlapping entries", .entryOverlap, "overlaps"),
            ("bad CRC", .entryChecksum, "CRC-32"),
            ("bad deflate", .entryChecksum, "order.json"),
            ("local checksum differs", .entryHeadersDiffer, "disagree about size or checksum"),
            ("local name length differs", .entryHeadersDiffer, "disagree"),
            ("local name differs", .entryHeadersDiffer, "disagree"),
            ("no local header", .entryLost, "No local header"),
            ("size beyond the archive", .entryLost, "reaches into the central directory"),
            ("offset beyond the archive", .entryLost, "No local header"),
            ("encrypted in the central header", .entryHeadersDiffer, "disagree"),
            ("encrypted in the local header", .entryHeadersDiffer, "disagree"),
            ("encrypted", .entryEncrypted, "no password"),
            ("data descriptor", .entryDataDescriptor, "data descriptor"),
            ("truncated by one", .archiveUnreadable, "no end of central directory"),
            ("truncated in the directory", .archiveUnreadable, "no end of central directory"),
            ("truncated in the first entry", .archiveUnreadable, "too short"),
            ("no bytes", .archiveUnreadable, "too short"),
            ("text", .archiveUnreadable, "no end of central directory"),
            ("comment", .archiveComment, "carries a comment"),
            ("bytes behind", .archiveTrailingBytes, "4 bytes after"),
            ("bytes before", .archiveLeadingBytes, "6 bytes before"),
            ("bytes before the first entry", .archiveLeadingBytes, "6 bytes before \"order.json\""),
            ("bytes between entries", .archiveStrayBytes, "6 bytes before \"logo.png\""),
            ("bytes before the directory", .archiveStrayBytes, "6 bytes before the directory"),
            ("more entries said than there", .archiveDirectory, "fewer records"),
            ("fewer entries said than there", .archiveDirectory, "bytes after the last"),
            ("several parts", .archiveDirectory, "one part of several"),
            ("ZIP64", .archiveZIP64, "ZIP64"),
            ("too many entries", .archiveTooManyEntries, "4097 entries"),
            ("bzip2", .entryMethod, "method 12"),
            ("lzma", .entryMethod, "method 14"),
            ("UTF-8 name without the mark", .entryNameText, "not marked as UTF-8"),
            ("name in Latin-1", .entryNameText, "not UTF-8"),
            ("folder with content", .entryDamaged, "folder and has content"),
            ("bomb", .entryTooLarge, "unpacks to 104857600 bytes"),
            ("bomb that says it is small", .entryDamaged, "more than 1000 bytes"),
            ("many bombs", .entryTooLarge, "unpacks to 15728640 bytes"),
            ("smaller than it says", .entryDamaged, "has 2400 bytes, the directory says 5000"),
            ("stored with another size", .entryDamaged, "the directory says 5000"),
        ] as [(String, ViolationCode, String)])
    func aMaliciousOrBrokenArchiveIsRefused(_ name: String, _ code: ViolationCode, _ sentence: String) throws {
        let violations = try Self.read(name).violations
        let ends = [violations.first, violations.last].compactMap(\.self)
        #expect(ends.contains { $0.code == code && $0.description.contains(sentence) }, "\(violations)")
    }

    @Test func allFiftyBrokenArchivesAreMade() throws {
        let names = Set(try PythonZip.archives.get().keys.filter { !$0.hasPrefix("good") })
        #expect(names.count == 50)
    }

    /// A truncated or changed archive never causes a trap, and a truncated one is never accepted.
    @Test func everyPrefixIsRefusedAndNoChangedByteTraps() throws {
        let archive = try #require(try PythonZip.archives.get()["good"])
        for count in archive.indices { #expect(!ZipReader(Array(archive[..<count])).violations.isEmpty) }
        for index in archive.indices {
            for value: UInt8 in [0, 0xFF, archive[index] ^ 0x80] {
                var changed = archive
                changed[index] = value
                _ = ZipReader(changed)
            }
        }
    }
}
