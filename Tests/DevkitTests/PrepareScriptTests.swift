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
        try directory.write("swift", "#!/bin/sh\nenv | sort\n")
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: directory.path("swift"))
        let path = "\(directory.path):\(ProcessInfo.processInfo.environment["PATH"] ?? "")"
        let script = Repository.root.appending(path: "compose/prepare").path()
        let plain = try await ChildProcess.run(
            script, ["run"], environment: ["PATH": path, "WAYBILL_TEST_PROGRAMS": ""])
        let nested = try await ChildProcess.run(
            "bash", ["-c", "cd /tmp; cd /; bash -c '\"$0\" run; true' \"$0\"", script],
            environment: [
                "PATH": path, "TMPDIR": directory.path, "PYTHONPATH": "x", "WAYBILL_SCREENSHOTS": "x", "SWT_X": "x",
                "WAYBILL_TEST_PROGRAMS": "",
            ])
        #expect(plain.contains("PATH=\(path)"))
        #expect(plain == nested)
    }
}
