import TestKit

@testable import Devkit

extension BrokenPackage {
    static let archives: [BrokenPackage] = [
        BrokenPackage(archive: "text in front", .archiveLeadingBytes, mention: "8 bytes before") {
            $0.before = Array("Warning\n".utf8)
        },
        BrokenPackage(archive: "text behind", .archiveTrailingBytes, mention: "2 bytes after") {
            $0.behind = [13, 10]
        },
        BrokenPackage(archive: "cut off", .archiveUnreadable, mention: "it was cut") { $0.cut = 10 },
        BrokenPackage(archive: "a comment", .archiveComment, mention: "comment") { $0.comment = Array("by hand".utf8) },
        BrokenPackage(archive: "hidden bytes", .archiveStrayBytes, mention: "3 bytes before \"logo.png\"") {
            $0.entries[$0.index("logo.png")].before = [1, 2, 3]
        },
        BrokenPackage(archive: "one entry too many", .archiveDirectory, mention: "fewer records") {
            $0.countTooMany = 1
        },
        BrokenPackage(archive: "a ZIP64 field", .archiveZIP64, mention: "\"shell.jpg\"") {
            $0.entries[$0.index("shell.jpg")].extra = [1, 0, 0, 0]
        },
        BrokenPackage(archive: "one name twice", .entryNameTwice, mention: "\"logo.png\"") {
            $0.entries.append($0.entries[$0.index("logo.png")])
        },
        BrokenPackage("a way out", .entryNamePath, mention: "\"../logo.png\"") { draft, _ in
            draft["../logo.png"] = SampleFile.png(seed: 1)
        },
        BrokenPackage("an absolute path", .entryNamePath, mention: "absolute") { draft, _ in
            draft["/logo.png"] = SampleFile.png(seed: 1)
        },
        BrokenPackage("a backslash", .entryNamePath, mention: "'/'") { draft, _ in
            draft["extra\\logo.png"] = SampleFile.png(seed: 1)
        },
        BrokenPackage(archive: "a name in Latin-1", .entryNameText, mention: "not UTF-8") {
            $0.entries[$0.index("logo.png")].name[0] = 0xE9
        },
        BrokenPackage("a control character in a name", .entryNameText, mention: "control character") { draft, _ in
            draft["logo\u{7}.png"] = SampleFile.png(seed: 1)
        },
        BrokenPackage(archive: "encrypted", .entryEncrypted, mention: "\"logo.png\"") {
            $0.entries[$0.index("logo.png")].flags |= 1
        },
        BrokenPackage(archive: "a data descriptor", .entryDataDescriptor, mention: "\"order.json\"") {
            $0.entries[$0.index("order.json")].hasDescriptor = true
        },
        BrokenPackage(archive: "packed by bzip2", .entryMethod, mention: "method 12") {
            $0.entries[$0.index("logo.png")].method = 12
        },
        BrokenPackage(archive: "packed badly", .entryDamaged, mention: "\"logo.png\"") {
            $0.entries[$0.index("logo.png")].method = 8
        },
        BrokenPackage(archive: "a wrong checksum", .entryChecksum, mention: "\"order.json\"") {
            $0.entries[$0.index("order.json")].checksum ^= 1
        },
        BrokenPackage(archive: "another local name", .entryHeadersDiffer, mention: "\"order.json\"") {
            $0.entries[$0.index("order.json")].localName = Array("other.json".utf8)
        },
        BrokenPackage(archive: "another local size", .entryHeadersDiffer, mention: "\"signature\"") {
            $0.entries[$0.index("signature")].localSize = 7
        },
        BrokenPackage(archive: "a symbolic link", .entryLink, mention: "\"logo.png\"") {
            $0.entries[$0.index("logo.png")].mode = 0xA1FF
        },
        BrokenPackage(archive: "all in a folder", .enclosingFolder, mention: "\"shop/\"") {
            for index in $0.entries.indices { $0.entries[index].name = Array("shop/".utf8) + $0.entries[index].name }
        },
        BrokenPackage("five megabytes", .packageTooLarge, mention: "below 5 MB") { draft, _ in
            draft["manual.pdf"] = Array("%PDF-1.4\n".utf8) + [UInt8](repeating: 7, count: 5_000_000)
        },
        BrokenPackage("what Finder leaves behind", .fileStray, mention: "\".DS_Store\"") { draft, _ in
            draft[".DS_Store"] = [0, 0, 0, 1]
        },
        BrokenPackage("resource forks, unlisted", .fileStray, mention: "\"__MACOSX/._logo.png\"", seal: .nothing) {
            draft, _ in draft["__MACOSX/._logo.png"] = [0, 5]
        },
    ]
}
