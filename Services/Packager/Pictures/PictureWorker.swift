import CoreMetrics
import Fetch
import Logging
import Model
import Packaging
import ServiceLifecycle
import Store
import Synchronization

/// Fetches pictures that orders wait for, as long as the packager runs.
///
/// All packagers share the pictures that are due; the lease in Redis ensures that only one works on each. A picture in
/// hand when the service stops is due again immediately, or when the lease expires.
struct PictureWorker: Service {
    /// Pictures in hand at once.
    static let concurrency = 8
    private static let idle: Duration = .milliseconds(250)
    private static let afterFailure: Duration = .seconds(2)

    let pictures: Pictures
    let job: PictureFetchJob
    let fetcher: Fetcher
    let metrics: PictureMetrics
    let logger: Logger
    /// Returns the hosts that pictures may come from, by order type, with the present brands.
    var hosts: @Sendable () -> [OrderTypeIdentifier: PictureHosts] = { [:] }

    init(pictures: Pictures, job: PictureFetchJob, fetcher: Fetcher, metrics: PictureMetrics, logger: Logger) {
        self.pictures = pictures
        self.job = job
        self.fetcher = fetcher
        self.metrics = metrics
        self.logger = logger
    }

    /// - Parameters:
    ///   - fetcher: closed when the worker stops.
    ///   - repackage: as for `PictureFetchJob`.
    ///   - hosts: returns the hosts that pictures may come from, by order type, with the present brands.
    init(
        _ pictureIndex: PictureIndex, store: OrderStore, fetcher: Fetcher,
        repackage: @escaping @Sendable ([OrderKey]) async throws -> Set<OrderKey>,
        hosts: @escaping @Sendable () -> [OrderTypeIdentifier: PictureHosts], logger: Logger
    ) {
        self.init(
            pictures: pictureIndex.pictures,
            job: PictureFetchJob(
                pictures: pictureIndex.pictures, store: store, fetcher: fetcher, repackage: repackage,
                hosts: { hosts()[$0] ?? .none }, metrics: pictureIndex.metrics, logger: logger),
            fetcher: fetcher, metrics: pictureIndex.metrics, logger: logger)
        self.hosts = hosts
    }

    func run() async throws {
        let slots = Slots(Self.concurrency)
        try? await cancelWhenGracefulShutdown {
            try await withThrowingDiscardingTaskGroup { group in
                var known = self.hosts()
                while !Task.isCancelled {
                    await self.hasten(since: &known)
                    let claims = await self.claim(slots.free)
                    for claim in claims {
                        slots.acquire()
                        group.addTask {
                            await self.carryOut(claim)
                            slots.release()
                        }
                    }
                    if claims.isEmpty { try await Task.sleep(for: Self.idle) }
                }
            }
        }
        await self.fetcher.close()
    }

    /// Makes waiting pictures due whose brand allows other hosts than before; those of a failure of Redis next time.
    private func hasten(since known: inout [OrderTypeIdentifier: PictureHosts]) async {
        let hosts = self.hosts()
        let types = hosts.keys.filter { known[$0] != hosts[$0] }
        do {
            if !types.isEmpty { try await self.pictures.hasten(of: types, waitingFor: PictureFetchJob.lease) }
            known = hosts
        } catch {
            self.logger.warning("cannot make pictures due, retrying", metadata: ["error": "\(error)"])
        }
    }

    /// Claims pictures that are due; none after a failure of Redis, which is retried.
    private func claim(_ limit: Int) async -> [Pictures.Claim] {
        guard limit > 0 else { return [] }
        do {
            let (claims, total) = try await self.pictures.claim(limit, lease: PictureFetchJob.lease)
            self.metrics.waiting.record(total)
            return claims
        } catch {
            self.logger.warning("cannot claim pictures, retrying", metadata: ["error": "\(error)"])
            try? await Task.sleep(for: Self.afterFailure)
            return []
        }
    }

    private func carryOut(_ given: Pictures.Claim) async {
        var claim = given
        do {
            try await self.job.run(&claim)
        } catch is CancellationError {
            // The service is stopping: the next worker need not wait for the lease.
            _ = try? await self.pictures.postpone(&claim, by: .milliseconds(1))
        } catch {
            self.logger.warning("cannot add a picture to its orders, retrying", metadata: ["error": "\(error)"])
            _ = try? await self.pictures.postpone(&claim, by: Self.afterFailure)
        }
    }

    /// The number of further pictures that may be worked on at once.
    private final class Slots: Sendable {
        private let left: Mutex<Int>
        init(_ count: Int) { self.left = Mutex(count) }
        var free: Int { self.left.withLock { $0 } }
        func acquire() { self.left.withLock { $0 -= 1 } }
        func release() { self.left.withLock { $0 += 1 } }
    }
}
