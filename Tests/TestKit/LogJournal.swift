public import Logging
import Synchronization

/// A log handler that keeps the logged lines.
public struct LogJournal: LogHandler {
    /// One line of the log.
    public struct Line: Sendable {
        public let level: Logger.Level
        public let message: String
        public let metadata: [String: String]
    }

    private final class Lines: Sendable {
        let all = Mutex<[Line]>([])
    }

    private let kept = Lines()
    public var metadata = Logger.Metadata()
    public var logLevel = Logger.Level.trace

    public init() {}

    public var lines: [Line] { self.kept.all.withLock { $0 } }

    public func log(event: LogEvent) {
        let metadata = (event.metadata ?? [:]).mapValues { "\($0)" }
        self.kept.all.withLock {
            $0.append(Line(level: event.level, message: "\(event.message)", metadata: metadata))
        }
    }

    public subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { self.metadata[key] }
        set { self.metadata[key] = newValue }
    }
}
