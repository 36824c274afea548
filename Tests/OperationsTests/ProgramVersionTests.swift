import Foundation
import Kafka
import Model
import TestKit
import Testing

/// The versions that programs report.
@Suite struct ProgramVersionTests {
    @Test(arguments: ["gateway", "packager", "pusher", "dev"])
    func everyProgramPrintsItsVersionAndItsLibraries(name: String) throws {
        let tests = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let program = URL(filePath: tests).deletingLastPathComponent().appending(path: "waybill-\(name)").path()
        let text = try Program.run(program, ["--version"])
        #expect(text.hasPrefix("waybill-\(name) \(ProgramVersion.number) (librdkafka \(librdkafkaVersion()), hiredis "))
        #expect(text.contains(", OpenSSL 3."))
    }
}
