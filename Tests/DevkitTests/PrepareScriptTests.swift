import Foundation
import TestKit
import TestTraits
import Testing

/// `compose/prepare` with a stand-in for the compiler.
@Suite(.server) struct PrepareScriptTests {
    /// SwiftPM's own lock is a file in TMPDIR, so it does not prevent two builds with different ones.
    @Test func buildsWithDifferentTemporaryDirectoriesRunOneAfterAnother() async throws {
        let directory = try TemporaryDirectory("prepare")
        let files = FileManager.default
        for folder in ["compose", "bin", "one", "two"] {
            try files.createDirectory(atPath: directory.path(folder), withIntermediateDirectories: true)
        }
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        try files.copyItem(
            atPath: root.appending(path: "compose/prepare").path(), toPath: directory.path("compose/prepare"))
        try directory.write(
            "bin/swift", "#!/bin/sh\nmkdir building || exit 1\nsleep 1\nrmdir building\necho built\n")
        try files.setAttributes([.posixPermissions: 0o755], ofItemAtPath: directory.path("bin/swift"))
        let path = "\(directory.path("bin")):\(ProcessInfo.processInfo.environment["PATH"] ?? "")"
        let builds = try ["one", "two"].map { name in
            try ChildProcess(
                directory.path("compose/prepare"), ["run"],
                environment: ["PATH": path, "TMPDIR": directory.path(name)])
        }
        for build in builds {
            #expect(try await build.exit(within: .seconds(60)) == .code(0), "\(build.tail)")
            #expect(build.output.contains("built"), "\(build.tail)")
        }
    }
}
