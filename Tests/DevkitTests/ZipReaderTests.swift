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

    @Test func theContentIsWhatWasPackedInBothMethods() throws {
        for (name, isCompressed) in [("good", true), ("good, stored", false)] {
            let entries = try Self.read(name).entries
            #expect(entries.first?.content == Array(String(repeating: "order ", count: 400).utf8))
            #expect(entries.last?.content == Array(0...255))
            #expect(entries.first?.isCompressed == isCompressed)
        }
    }

    /// Each is refused with one sentence that says what is wrong; where two are right, the first counts.
    @Test(arguments: [
        ("duplicate name", "\"a\" stands twice"), ("name ../a", "'..' part"), ("name a/../b", "'..' part"),
        ("name a/./b", "'.' or"), ("name a//b", "an empty"), ("name /etc/passwd", "absolute path"),
        ("name C:/a", "absolute path"), ("name a\\b", "backslash"), ("name a\nb", "control character"),
        ("entry that starts inside another", "No local header"), ("two names for one entry", "disagree"),
        ("overlapping entries", "overlaps"), ("bad CRC", "checksum of \"order.json\" is wrong"),
        ("bad deflate", "\"order.json\""), ("local checksum differs", "disagree about the size or checksum"),
        ("local name length differs", "disagree"), ("local name differs", "disagree about \"order.json\""),
        ("no local header", "No local header"), ("size beyond the archive", "reaches into the central directory"),
        ("offset beyond the archive", "No local header"), ("encrypted in the central header", "disagree"),
        ("encrypted in the local header", "disagree"), ("encrypted", "encrypted"),
        ("data descriptor", "data descriptor"), ("truncated by one", "no end of central directory"),
        ("truncated in the directory", "no end of central directory"), ("truncated in the first entry", "too short"),
        ("no bytes", "too short"), ("text", "no end of central directory"), ("comment", "carries a comment"),
        ("bytes behind", "no end of central directory"), ("bytes before", "does not end where"),
        ("bytes before the first entry", "6 bytes before \"order.json\""),
        ("bytes between entries", "6 bytes before \"logo.png\""),
        ("bytes before the directory", "6 bytes before the directory"),
        ("more entries said than there", "fewer records"), ("fewer entries said than there", "bytes behind the last"),
        ("several parts", "one part of several"), ("ZIP64", "ZIP64"), ("too many entries", "4097 entries"),
        ("bzip2", "method 12"), ("lzma", "method 14"), ("UTF-8 name without the mark", "not marked as UTF-8"),
        ("name in Latin-1", "not UTF-8"), ("folder with content", "directory \"a/\" has content"),
        ("bomb", "unpacks to 104857600 bytes"), ("bomb that says it is small", "more than 1000 bytes"),
        ("many bombs", "unpacks to 15728640 bytes"), ("smaller than it says", "has 2400 bytes, the directory says 5000"),
        ("stored with another size", "the directory says 5000"),
    ])
    func aMaliciousOrBrokenArchiveIsRefused(_ name: String, _ sentence: String) throws {
        let violations = try Self.read(name).violations
        #expect(violations.first?.contains(sentence) == true || violations.last?.contains(sentence) == true, "\(violations)")
    }

    @Test func noneIsForgotten() throws {
        let names = Set(try PythonZip.archives.get().keys.filter { !$0.hasPrefix("good") })
        #expect(names.count == 50)
    }

    /// Whatever is cut off or changed: no trap, and a cut archive is never taken for a whole one.
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
