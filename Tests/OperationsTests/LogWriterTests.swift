import Dispatch
import Foundation
import Synchronization
import Testing

@testable import Operations

@Suite struct LogWriterTests {
    /// A stream whose reader stands still until it is released.
    private final class Stream: Sendable {
        let begun = DispatchSemaphore(value: 0)
        let released = DispatchSemaphore(value: 0)
        let lines = Mutex<[String]>([])

        func write(_ line: String) -> Bool {
            self.begun.signal()
            self.released.wait()
            self.lines.withLock { $0.append(line) }
            return true
        }
    }

    @Test(.timeLimit(.minutes(1))) func aReaderThatStandsStillStopsNothing() throws {
        let (stream, metrics) = (Stream(), MetricsRegistry(MetricRow.common))
        let writer = try LogWriter(
            LogQueue(.init(lines: 100, bytes: 1 << 20)) { "(\($0))" }, metrics: metrics, sink: stream.write)
        writer.write("0")
        stream.begun.wait()
        for number in 1..<1000 { writer.write("\(number)") }
        writer.flush(within: .milliseconds(20))
        #expect(metrics.text.contains("waybill_log_lines_dropped_total 900\n"))
        #expect(stream.lines.withLock { $0.isEmpty })
        for _ in 0...100 { stream.released.signal() }
        writer.flush(within: .seconds(30))
        #expect(stream.lines.withLock { $0 } == (0..<100).map { "\($0)" } + ["(900)"])
        stream.released.signal()
        writer.write("again")
        writer.flush(within: .seconds(30))
        #expect(stream.lines.withLock { $0.last } == "again")
        #expect(metrics.text.contains("waybill_log_lines_dropped_total 900\n"))
    }

    /// The lines before a crash may tell its cause.
    @Test(.timeLimit(.minutes(1))) func aCrashWaitsForTheLog() async throws {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardOutputContent]) {
            let writer = try LogWriter(LogQueue { "\($0) are missing" }, metrics: MetricsRegistry())
            CrashedLog.beWritten()
            for number in 1...1000 { writer.write("line \(number)\n") }
            fatalError("on purpose")
        }
        let output = String(decoding: try #require(result).standardOutputContent, as: UTF8.self)
        #expect(output.contains("line 1000\n"))
    }
}
