import Glibc
import Operations
import Synchronization

/// Shows progress on standard error: on a terminal one line that is overwritten, else a line every ten seconds.
final class ProgressLine: Sendable {
    private struct State {
        var shown: ContinuousClock.Instant?
        var length = 0
    }

    private let head: String
    private let stream: StandardStream
    private let isTerminal: Bool
    private let state = Mutex(State())

    init(head: String, to stream: StandardStream) {
        self.head = head
        self.stream = stream
        self.isTerminal = isatty(stream.rawValue) == 1
    }

    /// - Parameter isLast: true for a line that is shown in any case and ends with a newline.
    func show(_ text: String, isLast: Bool) {
        let now = ContinuousClock.now
        let line = self.state.withLock { state -> String? in
            let interval: Duration = self.isTerminal ? .milliseconds(200) : .seconds(10)
            if !isLast, let shown = state.shown, now - shown < interval { return nil }
            state.shown = now
            let text = self.head + text
            guard self.isTerminal else { return text + "\n" }
            let rest = String(repeating: " ", count: max(0, state.length - text.utf8.count))
            state.length = text.utf8.count
            return "\r" + text + rest + (isLast ? "\n" : "")
        }
        guard let line else { return }
        self.stream.write(line)
    }
}

/// Keeps work below a rate: returns how long to wait so that the work does not exceed it.
///
/// Lost time is not made up for, so there are no bursts after a stall.
struct RateLimiter {
    private let perSecond: Int
    private var next: Duration?

    /// - Parameter perSecond: above 0.
    init(perSecond: Int) { self.perSecond = max(perSecond, 1) }

    /// - Parameters:
    ///   - count: units that were done just now.
    ///   - now: the time on a monotonic clock.
    mutating func wait(after count: Int, now: Duration) -> Duration {
        let due = max(self.next ?? now, now - .seconds(1)) + .seconds(count) / self.perSecond
        self.next = due
        return max(.zero, due - now)
    }
}
