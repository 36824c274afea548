import CoreMetrics
import Logging
import Model
import ServiceLifecycle
import Store

/// Makes the packages that gateways ask for, of versions that had none, as long as the packager runs.
///
/// Any packager makes any order's: each write is a compare-and-set. A request that fails is not repeated here, since
/// the gateway repeats it while a client waits.
struct RequestedPackages: Service {
    /// Most packages that are made together.
    private static let batch = 64
    /// Most batches in hand: while one waits for Redis or Kafka, another one is signed.
    private static let concurrency = 4
    private static let afterFailure: Duration = .seconds(1)

    let requests: PackageRequests
    let repackager: OrderRepackager
    let requested: Counter
    let logger: Logger
    /// Called when the service stops.
    var onStopped: @Sendable () async -> Void = {}

    func run() async throws {
        try? await cancelWhenGracefulShutdown {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for made in 0... {
                    try Task.checkCancellation()
                    if made >= Self.concurrency { try await group.next() }
                    let keys = try await self.attempt { try await self.requests.take(Self.batch) } ?? []
                    group.addTask { _ = try await self.attempt { try await self.make(keys) } }
                }
            }
        }
        await self.onStopped()
    }

    /// - Returns: nil after a failure, which is logged, and a pause.
    private func attempt<Value>(_ body: () async throws -> Value) async throws -> Value? {
        do {
            return try await body()
        } catch {
            try Task.checkCancellation()
            self.logger.warning("cannot make packages that are asked for", metadata: ["error": "\(error)"])
            try await Task.sleep(for: Self.afterFailure)
            return nil
        }
    }

    private func make(_ keys: [OrderKey]) async throws {
        guard !keys.isEmpty else { return }
        for (key, outcome) in zip(keys, try await self.repackager.package(requested: keys)) {
            switch outcome {
            case .signed: self.requested.increment()
            case .refused(let reason):
                self.logger.error(
                    "an order that is asked for cannot be packaged",
                    metadata: ["order": "\(key)", "reason": "\(reason)"])
            case .current, .renewed, .absent: break
            }
        }
    }
}
