import Foundation
import TestKit
import Testing

@testable import Operations

/// Files that operators and tenants name, and files that commands write.
@Suite struct FileContentTests {
    private static func problem(_ body: () throws -> Void) -> String {
        do {
            try body()
            return "none"
        } catch {
            return "\(error)"
        }
    }

    private static func link(_ directory: TemporaryDirectory, _ name: String, to target: String) throws {
        try FileManager.default.createSymbolicLink(atPath: directory.path(name), withDestinationPath: target)
    }

    @Test(.timeLimit(.minutes(1))) func onlyRegularFilesInsideOfAFolderAreRead() throws {
        let directory = try TemporaryDirectory("folder")
        for folder in ["a/sub", "a/..2026", "ab", "other"] {
            try FileManager.default.createDirectory(
                atPath: directory.path(folder), withIntermediateDirectories: true)
        }
        try directory.write("other/secret", "the secret of another")
        try directory.write("ab/secret", "the secret of another")
        try directory.write("a/..2026/key", "mounted")
        try directory.write("a/sub/key", "nested")
        try directory.write("a/large", [UInt8](repeating: 0, count: 101))
        try Self.link(directory, "a/..data", to: "..2026")
        try Self.link(directory, "a/key", to: "..data/key")
        try Self.link(directory, "a/absolute", to: directory.path("a/sub/key"))
        for (name, target) in [
            ("out", "../other/secret"), ("sibling", "../ab/secret"), ("folder", "../other"), ("zero", "/dev/zero"),
            ("system", "/etc/passwd"), ("self", "/proc/self/environ"), ("none", "nothing"), ("circle", "circle"),
        ] {
            try Self.link(directory, "a/\(name)", to: target)
        }
        try Program.run("mkfifo", [directory.path("a/pipe")])
        let folder = directory.path("a")
        func read(_ name: String) throws -> String {
            String(decoding: try FileContent.read(name, inside: folder, limit: 100), as: UTF8.self)
        }
        #expect(try read("key") == "mounted")
        #expect(try read("sub/key") == "nested")
        #expect(try read("absolute") == "nested")
        for name in ["out", "sibling", "folder/secret", "system", "self", "zero", "../other/secret"] {
            let problem = Self.problem { _ = try read(name) }
            #expect(problem == "the link leads out of the directory \(folder); copy the file", "\(name): \(problem)")
        }
        for (name, expected) in [
            ("sub", "it is not a regular file"), ("pipe", "it is not a regular file"),
            ("large", "it has 101 bytes, at most 100 are allowed"),
            ("none", "it cannot be read: No such file or directory"), ("circle", "it cannot be read: Too many levels"),
        ] {
            let problem = Self.problem { _ = try read(name) }
            #expect(problem.hasPrefix(expected), "\(name): \(problem)")
        }
        #expect(try FileContent.names("sub", inside: folder) == ["key"])
        #expect(try FileContent.names("key", inside: folder) == nil)
        #expect(Self.problem { _ = try FileContent.names("folder", inside: folder) }.contains("leads out"))
        // The folder itself may be a link.
        try Self.link(directory, "linked", to: "a")
        #expect(try FileContent.read("sub/key", inside: directory.path("linked"), limit: 6) == Array("nested".utf8))
    }

    @Test(.timeLimit(.minutes(1))) func aFileOfASettingIsBounded() throws {
        let directory = try TemporaryDirectory("file")
        let path = try directory.write("file", "123456")
        #expect(try FileContent.read(path, limit: 6) == Array("123456".utf8))
        #expect(Self.problem { _ = try FileContent.read(path, limit: 5) }.contains("it has 6 bytes"))
        #expect(Self.problem { _ = try FileContent.read("/dev/zero", limit: 9) } == "it is not a regular file")
        let endless = Self.problem { _ = try FileContent.read("/dev/zero", limit: 9, isPipeAllowed: true) }
        #expect(endless == "it has more than 9 bytes")
        try Program.run("mkfifo", [directory.path("pipe")])
        #expect(Self.problem { _ = try FileContent.read(directory.path("pipe"), limit: 9) }.contains("regular"))
    }

    @Test func aPrivateFileIsItsUsersAlone() throws {
        let directory = try TemporaryDirectory("private")
        func mode(_ path: String) throws -> Int? {
            try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
        }
        let new = directory.path("new")
        try PrivateFile.write(Array("one".utf8), to: new)
        #expect(try directory.read("new") == Array("one".utf8))
        #expect(try mode(new) == 0o600)
        let open = try directory.write("open", "a longer text that others read")
        try FileManager.default.setAttributes([.posixPermissions: 0o666], ofItemAtPath: open)
        try PrivateFile.write(Array("two".utf8), to: open)
        #expect(try directory.read("open") == Array("two".utf8))
        #expect(try mode(open) == 0o600)
        // A link may be one of the system, as `/dev/stdout` is, and lead to a regular file of its user's shell.
        try FileManager.default.setAttributes([.posixPermissions: 0o666], ofItemAtPath: open)
        try Self.link(directory, "link", to: "open")
        try PrivateFile.write(Array("3".utf8), to: directory.path("link"))
        #expect(try FileManager.default.destinationOfSymbolicLink(atPath: directory.path("link")) == "open")
        #expect(try directory.read("open") == Array("3".utf8))
        #expect(try mode(open) == 0o600)
        try PrivateFile.write(Array("three".utf8), to: "/dev/null")
        #expect(
            try FileManager.default.attributesOfItem(atPath: "/dev/null")[.type] as? FileAttributeType
                == .typeCharacterSpecial)
        #expect(Self.problem { try PrivateFile.write([], to: directory.path("none/file")) }.contains("No such file"))
        let names = try FileManager.default.contentsOfDirectory(atPath: directory.path)
        #expect(names.sorted() == ["link", "new", "open"])
    }
}
