import NIOCore
import NIOPosix
import Synchronization

/// The parts of a process that must not stand still: each event loop, a consumer's thread, a worker. The verdict of
/// `/livez`.
///
/// A part stands still if it has had work and has not moved for `patience`. One that waits for an upstream, within the
/// bounds of its retries, moves.
public final class Liveness: Sendable {
    /// The longest time for a part to stand still.
    public static let patience = Duration.seconds(60)
    /// The time between two movements of an event loop that has nothing else to do.
    static let interval = Duration.seconds(5)

    private struct Part {
        let name: String
        let waitsSince: @Sendable () -> ContinuousClock.Instant?
    }

    private let patience: Duration
    private let parts = Mutex<[Part]>([])

    public init(patience: Duration = Liveness.patience) { self.patience = patience }

    /// Watches a part for as long as the process runs.
    ///
    /// - Parameter waitsSince: returns the time since which the part has had work without moving; nil if it has none.
    public func watch(_ name: String, _ waitsSince: @escaping @Sendable () -> ContinuousClock.Instant?) {
        self.parts.withLock { $0.append(Part(name: name, waitsSince: waitsSince)) }
    }

    /// Watches each event loop of a group, by a task that is due again and again.
    func watch(_ group: MultiThreadedEventLoopGroup, every interval: Duration = Liveness.interval) {
        for (index, loop) in group.makeIterator().enumerated() {
            let heartbeat = Heartbeat()
            heartbeat.beat()
            loop.scheduleRepeatedTask(initialDelay: .zero, delay: .init(interval)) { _ in heartbeat.beat() }
            self.watch("event-loop-\(index)") { heartbeat.last }
        }
    }

    /// Returns a line for each part that stands still.
    public func faults(now: ContinuousClock.Instant = .now) -> [String] {
        self.parts.withLock { $0 }.compactMap { part in
            guard let since = part.waitsSince(), now - since > self.patience else { return nil }
            return "\(part.name): has not moved for \((now - since).components.seconds) s"
        }
    }
}

/// The time of the last movement of a part.
public final class Heartbeat: Sendable {
    private let moved = Mutex<ContinuousClock.Instant?>(nil)

    public init() {}

    /// Nil before the first movement and after the end.
    public var last: ContinuousClock.Instant? { self.moved.withLock { $0 } }

    public func beat() { self.moved.withLock { $0 = .now } }

    /// Notes that the part has ended.
    public func end() { self.moved.withLock { $0 = nil } }
}
