import Logging
import Operations
import ServiceLifecycle
import Store

/// Removes the keys of the earlier format from Redis, once the view is complete and no service can be using them any
/// more.
///
/// A sweep that found something is followed by another, an hour later: a service of the earlier version that is still
/// running writes its keys again. Several packagers may sweep at the same time. Without such keys it costs one look at
/// the start.
struct EarlierFormatSweep: Service {
    /// The delay before each sweep: services of both versions may run together for this long.
    static let delay = Duration.seconds(3600)
    /// The pause between two pages, so that Redis can serve others.
    private static let pause = Duration.milliseconds(5)

    private let view: MaterializedView
    private let format: EarlierFormat
    private let logger: Logger
    private let delay: Duration

    init(_ view: MaterializedView, logger: Logger, delay: Duration = delay) {
        self.view = view
        self.format = EarlierFormat(view)
        self.logger = logger
        self.delay = delay
    }

    func run() async throws {
        try? await cancelWhenGracefulShutdown {
            var attempt = 0
            while true {
                do {
                    if try await self.sweep() { break }
                    attempt = 0
                } catch {
                    try Task.checkCancellation()
                    attempt += 1
                    self.logger.warning(
                        "cannot remove the keys of the earlier format, retrying", metadata: ["error": "\(error)"])
                    try await Task.sleep(for: backoff(attempt: attempt, random: { Double.random(in: $0) }))
                }
            }
        }
        // A service that ends would end the process.
        try? await gracefulShutdown()
    }

    /// Waits, then goes through all keys once.
    ///
    /// - Returns: true if nothing is left.
    func sweep() async throws -> Bool {
        guard try await self.format.isThere() else { return true }
        try await Task.sleep(for: self.delay)
        guard try await ViewStatus(self.view.look()) == .complete else { return false }
        try await self.format.invalidate()
        var removed = 0
        var cursor: String?
        repeat {
            let page = try await self.format.removePage(from: cursor)
            removed += page.removed
            cursor = page.next
            try await Task.sleep(for: Self.pause)
        } while cursor != nil
        guard removed == 0 else {
            self.logger.notice("removed the keys of the earlier format", metadata: ["count": "\(removed)"])
            return false
        }
        try await self.format.forget()
        return true
    }
}
