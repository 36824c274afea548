import Dispatch
import Foundation
import Synchronization
import TestKit
import Testing

@testable import Operations

@Suite struct LogQueueTests {
    private static func queue(lines: Int = 1000, bytes: Int = 1000) -> LogQueue {
        LogQueue(.init(lines: lines, bytes: bytes)) { "(\($0))" }
    }

    /// Writes what waits; returns it.
    private static func drain(_ queue: inout LogQueue) -> [String] {
        var written: [String] = []
        while let line = queue.next {
            written.append(line)
            queue.ended(isWritten: true)
        }
        return written
    }

    @Test func linesBeyondTheLimitAreCountedInTheirPlace() {
        var queue = Self.queue(lines: 4)
        for line in ["a", "b", "c", "d", "e", "f"] { queue.add(line) }
        #expect(queue.dropped == 2)
        #expect(queue.next == "a")
        queue.ended(isWritten: true)
        queue.add("g")
        #expect(queue.dropped == 3, "half of the room is not free")
        queue.ended(isWritten: true)
        queue.add("h")
        #expect(Self.drain(&queue) == ["c", "d", "(3)", "h"])
        #expect(queue.dropped == 3)
        queue.add("i")
        #expect(Self.drain(&queue) == ["i"], "said once")
    }

    @Test func bytesAreBoundedToo() {
        var queue = Self.queue(bytes: 100)
        queue.add(String(repeating: "x", count: 101))
        #expect(queue.next == nil)
        queue.add(String(repeating: "y", count: 60))
        queue.add(String(repeating: "z", count: 60))
        #expect(queue.dropped == 2)
        #expect(Self.drain(&queue).map(\.count) == [3, 60, 3])
    }

    /// A disk that is full takes lines again later; a reader that is gone never does, and costs nothing.
    @Test func linesThatCannotBeWrittenAreCounted() {
        var queue = Self.queue()
        for line in ["a", "b"] { queue.add(line) }
        while queue.next != nil { queue.ended(isWritten: false) }
        #expect(queue.dropped == 2)
        queue.add("c")
        #expect(queue.next == "(2)")
        while queue.next != nil { queue.ended(isWritten: false) }
        #expect(queue.dropped == 3, "a notice is no line")
        queue.add("d")
        #expect(Self.drain(&queue) == ["(3)", "d"])
    }

    @Test(arguments: 0..<20) func everyLineIsWrittenOrCountedOnce(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var queue = Self.queue(lines: 20, bytes: 500)
        var (added, written, mentioned) = (0, [Int](), 0)
        func take(_ isWritten: Bool) {
            guard let line = queue.next else { return }
            queue.ended(isWritten: isWritten)
            guard isWritten else { return }
            if line.hasPrefix("(") { mentioned += Int(line.dropFirst().dropLast()) ?? 0 }
            if let number = Int(line.prefix { $0 != " " }) { written.append(number) }
        }
        for _ in 0..<2000 {
            if Bool.random(using: &random) {
                added += 1
                queue.add("\(added) " + String(repeating: "x", count: .random(in: 0...60, using: &random)))
            } else {
                take(Int.random(in: 0..<20, using: &random) > 0)
            }
            #expect(queue.count <= 20)
        }
        queue.add("0")
        while queue.next != nil { take(true) }
        #expect(written.filter { $0 > 0 } == written.filter { $0 > 0 }.sorted())
        #expect(written.count { $0 > 0 } + mentioned == added)
        #expect(queue.dropped == mentioned)
    }
}

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
