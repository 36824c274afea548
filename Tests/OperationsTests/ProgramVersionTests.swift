import Foundation
import Kafka
import Model
import TestKit
import Testing

@testable import Operations

/// The versions that programs report.
@Suite struct ProgramVersionTests {
    @Test(arguments: ["gateway", "packager", "pusher", "dev"])
    func everyProgramPrintsItsVersionAndItsLibraries(name: String) throws {
        let program = Program.built("waybill-\(name)")
        let text = try Program.run(program, ["--version"])
        let start = "waybill-\(name) \(ProgramVersion.number) (commit \(ProgramVersion.commit), "
        #expect(text.hasPrefix("\(start)librdkafka \(librdkafkaVersion()), hiredis "))
        #expect(text.contains(", OpenSSL 3."))
    }

    @Test func theVersionAndTheCommitAreAMetric() {
        let metrics = MetricsRegistry()
        BuildInformation.gauge(ProgramVersion("a", libraries: [("librdkafka", "2.0.2")]), metrics)
        let labels =
            "version=\"\(ProgramVersion.number)\",commit=\"\(ProgramVersion.commit)\","
            + "swift=\"\(ProgramVersion.swift)\",librdkafka=\"2.0.2\",openssl=\"unknown\""
        #expect(metrics.text.contains("waybill_build_info{\(labels)} 1"))
        #expect(metrics.undescribed == [])
        #expect(!ProgramVersion.commit.isEmpty)
    }
}
