import CoreMetrics
import Fetch
import Logging
import Model
import Operations
import Packaging
import ServiceLifecycle
import Store
import Synchronization

/// Fetches pictures, or the own documents, that orders wait for, as long as the packager runs.
///
/// All packagers share the pictures that are due; the lease in Redis ensures that only one works on each. A picture in
/// hand when the service stops is due again immediately, or when the lease expires.
struct PictureWorker: Service {
    /// Pictures in hand at once.
    private static let pictureCount = 8
    /// Documents in hand at once: each order has its own, of 1 MiB in most brands.
    private static let documentCount = 24
    private static let idle: Duration = .milliseconds(250)
    private static let afterFailure: Duration = .seconds(2)
    /// The time between two looks at the bytes of documents.
    private static let interval: Duration = .seconds(10)

    let pictures: Pictures
    let job: PictureFetchJob
    let fetcher: Fetcher
    let metrics: PictureMetrics
    let logger: Logger
    /// Returns the packagers with the present brands.
    var packagers: @Sendable () -> [OrderTypeIdentifier: OrderPackager] = { [:] }

    init(pictures: Pictures, job: PictureFetchJob, fetcher: Fetcher, metrics: PictureMetrics, logger: Logger) {
        self.pictures = pictures
        self.job = job
        self.fetcher = fetcher
        self.metrics = metrics
        self.logger = logger
    }

    /// - Parameters:
    ///   - areDocuments: true for the own documents of orders.
    ///   - fetcher: closed when the worker stops.
    ///   - repackage: as for `PictureFetchJob`.
    ///   - packagers: returns the packagers with the present brands.
    ///   - maker: as for `PictureFetchJob`.
    init(
        _ pictureIndex: PictureIndex, areDocuments: Bool, store: OrderStore,
        fetching configuration: FetcherConfiguration,
        repackage: @escaping @Sendable ([OrderKey]) async throws -> Set<OrderKey>,
        packagers: @escaping @Sendable () -> [OrderTypeIdentifier: OrderPackager], maker: PictureMaker,
        logger: Logger
    ) throws(FetchError) {
        var configuration = configuration
        configuration.concurrency = areDocuments ? Self.documentCount : Self.pictureCount
        let fetcher = try Fetcher(configuration)
        let pictures = areDocuments ? pictureIndex.documents : pictureIndex.pictures
        let metrics = areDocuments ? pictureIndex.documentMetrics : pictureIndex.metrics
        var job = PictureFetchJob(
            pictures: pictures, store: store, fetcher: fetcher, repackage: repackage, packager: { packagers()[$0] },
            documentBytes: pictureIndex.documentBytes, maker: maker, metrics: metrics, logger: logger)
        if areDocuments { job.retry = .ofDocuments }
        self.init(pictures: pictures, job: job, fetcher: fetcher, metrics: metrics, logger: logger)
        self.packagers = packagers
    }

    func run() async throws {
        let slots = Slots(self.pictures.areDocuments ? Self.documentCount : Self.pictureCount)
        try? await cancelWhenGracefulShutdown {
            try await withThrowingDiscardingTaskGroup { group in
                var known = self.hosts
                var looked: ContinuousClock.Instant?
                while !Task.isCancelled {
                    await self.hasten(since: &known)
                    // Brands without documents cost Redis nothing.
                    if self.pictures.areDocuments, known.values.allSatisfy(\.isEmpty) {
                        try await Task.sleep(for: Self.idle)
                        continue
                    }
                    if self.pictures.areDocuments, looked.map({ .now - $0 > Self.interval }) ?? true {
                        looked = .now
                        await self.measure()
                    }
                    let claims = await self.claim(slots.free)
                    for claim in claims {
                        slots.acquire()
                        // Packages of changes are not behind those that are made once more.
                        group.addTask(executorPreference: BackgroundExecutor.shared) {
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

    /// The hosts that may be asked, by order type, with the present brands.
    private var hosts: [OrderTypeIdentifier: PictureHosts] {
        self.packagers().mapValues { self.pictures.areDocuments ? $0.documents.hosts : $0.pictureHosts }
    }

    /// Makes waiting pictures due whose brand allows other hosts than before; those of a failure of Redis next time.
    private func hasten(since known: inout [OrderTypeIdentifier: PictureHosts]) async {
        let hosts = self.hosts
        let types = hosts.keys.filter { known[$0] != hosts[$0] }
        do {
            if !types.isEmpty { try await self.pictures.hasten(of: types, waitingFor: PictureFetchJob.lease) }
            known = hosts
        } catch {
            self.logger.warning("cannot make pictures due, retrying", metadata: ["error": "\(error)"])
        }
    }

    /// Records how many bytes the documents of each brand have.
    private func measure() async {
        do {
            let bytes = try await self.job.documentBytes.all()
            for (type, packager) in self.packagers() where !packager.documents.hosts.isEmpty {
                self.metrics.record(bytes: max(0, bytes[type] ?? 0), of: packager.documents.brandLimit, type)
            }
        } catch {
            self.logger.warning("cannot count documents, retrying", metadata: ["error": "\(error)"])
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
