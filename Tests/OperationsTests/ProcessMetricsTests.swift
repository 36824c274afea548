import FoundationEssentials
import Glibc
import TestKit
import Testing

@testable import Operations

/// The kernel's figures of this process.
@Suite struct ProcessMetricsTests {
    @Test func openFilesAreCounted() throws {
        // Other tests of this process open and close files meanwhile: these are more than all of theirs.
        let before = ProcessMetrics().openFiles
        let opened = (0..<2000).map { _ in unsafe open("/dev/null", O_RDONLY) }
        defer { for file in opened where file >= 0 { close(file) } }
        try #require(opened.allSatisfy { $0 >= 0 })
        let metrics = ProcessMetrics()
        #expect(metrics.openFiles > before + 1000)
        #expect(metrics.mostFiles.map { $0 >= 2000 } ?? true)
    }

    @Test func memoryProcessorTimeAndStartArePlausible() {
        let metrics = ProcessMetrics()
        #expect(metrics.residentBytes > 10 << 20)
        #expect(metrics.virtualBytes > metrics.residentBytes)
        #expect(metrics.cpuSeconds > 0)
        let age = Date().timeIntervalSince1970 - ProcessMetrics.startSeconds
        #expect(age > 0 && age < 86_400, "\(age)")
        #expect(metrics.text.contains("# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total "))
        #expect(metrics.text.hasSuffix("\n"))
    }
}
