import Foundation
import TestKit
import TestTraits
import Testing

/// `compose/prepare` with a stand-in for the compiler.
@Suite(.server) struct PrepareScriptTests {
    /// SwiftPM's lock is a file in TMPDIR: builds with different ones would run at the same time. A change of any other
    /// variable would make it compile all manifests again, which takes more than 10 s.
    @Test func buildsHaveTheSameEnvironmentWhicheverScriptStartsThem() async throws {
        let directory = try TemporaryDirectory("prepare")
        let files = FileManager.default
        for folder in ["compose", "bin"] {
            try files.createDirectory(atPath: directory.path(folder), withIntermediateDirectories: true)
        }
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let script = directory.path("compose/prepare")
        try files.copyItem(atPath: root.appending(path: "compose/prepare").path(), toPath: script)
        try directory.write("bin/swift", "#!/bin/sh\nenv | sort\n")
        try files.setAttributes([.posixPermissions: 0o755], ofItemAtPath: directory.path("bin/swift"))
        let path = "\(directory.path("bin")):\(ProcessInfo.processInfo.environment["PATH"] ?? "")"
        func build(_ command: String, _ environment: [String: String], in folder: String) async throws -> String {
            let child = try ChildProcess(
                "bash", ["-c", command], environment: environment.merging(["PATH": path]) { $1 },
                workingDirectory: folder)
            #expect(try await child.exit(within: .seconds(60)) == .code(0), "\(child.tail)")
            return child.output
        }
        let plain = try await build("\(script) run", [:], in: directory.path)
        let nested = try await build(
            "cd /; bash -c '\(script) run; true'",
            ["TMPDIR": directory.path("bin"), "PYTHONPATH": "x", "WAYBILL_SCREENSHOTS": "x", "SWT_X": "x"], in: "/tmp")
        #expect(plain.contains("PATH=\(path)"))
        #expect(plain == nested)
    }
}
