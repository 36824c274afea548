import Logging
import Synchronization

/// A log handler that keeps the logged lines.
struct LogJournal: LogHandler {
    /// One line of the log.
    struct Line: Sendable {
        let level: Logger.Level
        let message: String
        let metadata: [String: String]
    }

    private final class Lines: Sendable {
        let all = Mutex<[Line]>([])
    }

    private let kept = Lines()
    var metadata = Logger.Metadata()
    var logLevel = Logger.Level.trace

    var lines: [Line] { self.kept.all.withLock { $0 } }

    func log(event: LogEvent) {
        let metadata = (event.metadata ?? [:]).mapValues { "\($0)" }
        self.kept.all.withLock {
            $0.append(Line(level: event.level, message: "\(event.message)", metadata: metadata))
        }
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { self.metadata[key] }
        set { self.metadata[key] = newValue }
    }
}
