import Logging
import Operations
import ServiceLifecycle
import Store

/// Removes what the format before this one left in Redis, once the view is complete and nobody can be working with the
/// earlier one any more.
///
/// A sweep that found something is followed by another, an hour later: a service of the earlier version that is still
/// running writes its keys anew. Several packagers may do this at the same time. Where there never was such a format it
/// costs one look at the start.
struct EarlierFormatSweep: Service {
    /// Before each sweep: services of both versions may run together for so long.
    static let delay = Duration.seconds(3600)
    /// Between two pages, so that Redis has time for others.
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
    /// - Returns: whether nothing is left.
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
