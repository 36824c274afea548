import Kafka
import Model
import Operations
import ServiceLifecycle
import Synchronization

/// Reads the lines of an import: first to judge all of them, then to publish them.
///
/// May be stopped or killed at any time. The next run goes on after the last lines that Kafka has; those that it gets
/// twice are skipped by the packager, by `source` and `id`.
/// Bounded: `chunk` lines, at most `chunkBytes` and one more.
final class ImportRun: Service {
    /// Lines that are published together.
    private static let chunk = 256
    private static let chunkBytes = 8 << 20
    /// Lines whose refusals are reported one by one.
    private static let reported = 100

    /// The counts of a run.
    struct Tally: Hashable, Sendable {
        /// Lines that were judged, blank ones left out.
        var lines = 0
        var refused = 0
        /// Changes that Kafka has.
        var published = 0
    }

    /// A refused line.
    struct Refusal: Hashable, Sendable {
        let line: Int
        let fault: ChangeFault
    }

    enum End: Hashable, Sendable {
        case done
        /// Stopped on request; the next run continues.
        case stopped
        /// Kafka does not take changes; the next run continues.
        case gaveUp(String)
    }

    struct Options: Sendable {
        var path: String
        /// Without a time it is that of the file.
        var defaults = ImportedLine.Defaults()
        /// Changes a second.
        var rate = 500
        var isDryRun = false
        /// True to publish the rest of a file that has refused lines.
        var skipsRefused = false
    }

    /// The result.
    struct Result: Hashable, Sendable {
        var tally = Tally()
        /// Nil until the run ends; also if lines were refused and nothing was published.
        var end: End?
    }

    private let options: Options
    private let folds: [OrderTypeIdentifier: OrderFold]
    private let topic: String
    private let producer: KafkaProducer?
    private let now: @Sendable () -> Int64
    private let report: @Sendable (_ line: String, _ isLast: Bool) -> Void
    private let refuse: @Sendable (Refusal) -> Void
    private let found = Mutex(Result())

    /// - Parameters:
    ///   - folds: those of the brands.
    ///   - producer: nil to publish nothing.
    ///   - now: UNIX seconds.
    ///   - report: called with each step, for people.
    ///   - refuse: called with the first refused lines.
    init(
        _ options: Options, folds: [OrderTypeIdentifier: OrderFold], topic: String, producer: KafkaProducer?,
        now: @escaping @Sendable () -> Int64, report: @escaping @Sendable (_ line: String, _ isLast: Bool) -> Void,
        refuse: @escaping @Sendable (Refusal) -> Void
    ) {
        self.options = options
        self.folds = folds
        self.topic = topic
        self.producer = producer
        self.now = now
        self.report = report
        self.refuse = refuse
    }

    var result: Result { self.found.withLock { $0 } }

    /// - Throws: `FileContent.Failure`
    func run() async throws {
        var file = try FileLines(
            self.options.path, limit: OrderChange.valueLimit, copyLimit: ImportCommand.copyLimit)
        var defaults = self.options.defaults
        if defaults.time.isEmpty {
            defaults.time = RFC3339.format(
                epochSeconds: file.changedNanoseconds.map { $0 / 1_000_000_000 } ?? self.now())
        }
        var mark = ImportMark(size: file.size, changedNanoseconds: file.changedNanoseconds ?? 0)
        let markPath = file.changedNanoseconds.map { _ in "\(self.options.path).imported" }
        if let markPath, let left = mark.left(by: markPath) { mark = left }
        guard try await self.judge(&file, from: mark, defaults) else { return self.finish(.stopped) }
        let refused = self.result.tally.refused
        guard !self.options.isDryRun, refused == 0 || self.options.skipsRefused else { return self.finish(nil) }
        try file.seek(to: mark.place, lines: mark.lines)
        self.finish(try await self.publish(&file, from: mark, defaults, markPath))
    }

    private func finish(_ end: End?) { self.found.withLock { $0.end = end } }

    /// Judges all lines from a mark on.
    ///
    /// - Returns: false if it was stopped.
    private func judge(
        _ file: inout FileLines, from mark: ImportMark, _ defaults: ImportedLine.Defaults
    ) async throws -> Bool {
        try file.seek(to: mark.place, lines: mark.lines)
        while let line = try file.next() {
            guard !Task.isShuttingDownGracefully, !Task.isCancelled else { return false }
            guard !Self.isBlank(line.bytes) else { continue }
            let fault = self.fault(of: line, defaults)
            let tally = self.found.withLock { result in
                result.tally.lines += 1
                if fault != nil { result.tally.refused += 1 }
                return result.tally
            }
            if let fault, tally.refused <= Self.reported { self.refuse(Refusal(line: line.number, fault: fault)) }
            if tally.lines.isMultiple(of: Self.chunk) {
                self.report("\(tally.lines) lines judged, \(tally.refused) refused", false)
                await Task.yield()
            }
        }
        let tally = self.result.tally
        self.report("\(tally.lines) lines judged, \(tally.refused) refused", true)
        return true
    }

    private func fault(of line: FileLines.Line, _ defaults: ImportedLine.Defaults) -> ChangeFault? {
        do throws(ChangeFault) {
            return try ImportedLine(line.bytes, defaults).fault(self.folds, nowEpochSeconds: self.now())
        } catch {
            return error
        }
    }

    private func publish(
        _ file: inout FileLines, from mark: ImportMark, _ defaults: ImportedLine.Defaults, _ markPath: String?
    ) async throws -> End {
        guard let producer else { return .done }
        var mark = mark
        let start = ContinuousClock.now
        // Only then is a line judged a second time.
        let hasRefused = self.result.tally.refused > 0
        var pace = RateLimiter(perSecond: self.options.rate)
        let most = min(Self.chunk, max(1, self.options.rate / 4))
        var isAtEnd = false
        while !isAtEnd {
            guard !Task.isShuttingDownGracefully, !Task.isCancelled else { return .stopped }
            var (messages, bytes, next) = ([KafkaMessage](), 0, mark)
            while messages.count < most, bytes < Self.chunkBytes {
                guard let line = try file.next() else {
                    isAtEnd = true
                    break
                }
                (next.place, next.lines) = (line.end, line.number)
                guard !Self.isBlank(line.bytes), let imported = try? ImportedLine(line.bytes, defaults),
                    !hasRefused || imported.fault(self.folds, nowEpochSeconds: self.now()) == nil
                else { continue }
                messages.append(imported.message(topic: self.topic))
                bytes += imported.value.count
            }
            for outcome in await producer.produce(messages) {
                if case .failure(let error) = outcome { return .gaveUp(error.message) }
            }
            mark = next
            if let markPath { try mark.write(to: markPath) }
            let tally = self.found.withLock { result in
                result.tally.published += messages.count
                return result.tally
            }
            self.report("\(tally.published) changes published, line \(mark.lines)", isAtEnd)
            let wait = pace.wait(after: messages.count, now: ContinuousClock.now - start)
            // Ends immediately on a graceful shutdown; the guard above does the rest.
            try? await cancelWhenGracefulShutdown { try await Task.sleep(for: wait) }
        }
        return .done
    }

    private static func isBlank(_ line: [UInt8]) -> Bool {
        line.allSatisfy { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") }
    }
}
