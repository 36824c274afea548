import CoreMetrics
import Fetch
import FoundationEssentials
import Logging
import Model
import Packaging
import Store

/// Fetches one picture, or one own document, and repackages the orders that wait for it.
struct PictureFetchJob: Sendable {
    /// The time for which a worker owns a picture; renewed while it works on it.
    static let lease: Duration = .seconds(60)
    /// The delay before checking again for a version that is about to be written.
    private static let soon: Duration = .seconds(1)
    /// The longest time to wait for a version that is about to be written, in seconds. After it, the version's changes
    /// are redelivered and find the picture.
    static let patienceSeconds: Int64 = 15 * 60
    /// The most characters of a failure that are kept.
    private static let failureLimit = 300
    /// Orders that are packaged together.
    private static let orderCount = 50
    /// The most orders that are read to find the place of a picture.
    static let judgedCount = 8

    let pictures: Pictures
    let store: OrderStore
    let fetcher: Fetcher
    /// Repackages orders where that makes a difference, and announces the new versions. Returns those that go on
    /// waiting, since they cannot be read now.
    let repackage: @Sendable ([OrderKey]) async throws -> Set<OrderKey>
    /// Returns the packager of an order type with its present brand, which allows hosts; nil allows none.
    let packager: @Sendable (OrderTypeIdentifier) -> OrderPackager?
    /// The sums of documents.
    let documentBytes: OwnDocumentBytes
    /// Makes files for packages.
    let maker: PictureMaker
    let metrics: PictureMetrics
    let logger: Logger
    var retry = PictureRetry()
    /// Seconds since 1970.
    var now: @Sendable () -> Int64 = { Int64(Date().timeIntervalSince1970) }

    /// Fetches the picture and repackages its orders once.
    ///
    /// Trying again is safe at any point: the picture is due again when the lease ends.
    /// - Parameter claim: updated with the lease.
    /// - Throws: `StoreError` and what `repackage` throws.
    func run(_ claim: inout Pictures.Claim) async throws {
        let target: Target
        switch try await self.place(of: claim.key) {
        case .target(let found): target = found
        case .soon:
            _ = try await self.pictures.postpone(&claim, by: Self.soon)
            return
        case .none:
            return try await self.pictures.finish(claim, dismissing: true, otherwiseAgainAfter: Self.soon)
        }
        let record = try await self.pictures.records([claim.key]).first.flatMap(\.self) ?? PictureRecord()
        let isStale = self.now() - record.checkedEpochSeconds >= PictureIndex.freshSeconds
        if record.content == nil || isStale && !self.pictures.areDocuments {
            do {
                try await self.checkRoom(for: claim.key, target)
                let (fresh, entry) = try await self.fetch(claim.key, record, from: target).get()
                guard try await self.keep(fresh, entry, for: claim.key, target) else {
                    return try await self.pictures.finish(claim, dismissing: true, otherwiseAgainAfter: Self.soon)
                }
            } catch let failure as Failure {
                return try await self.putOff(&claim, record, failure, target)
            }
        }
        guard try await self.serve(&claim) else { return }
        try await self.pictures.finish(claim, dismissing: false, otherwiseAgainAfter: Self.soon)
    }

    /// A failed fetch; the reason is nil if the picture is not the cause.
    struct Failure: Error {
        let reason: PictureFailure?
        var retryAfterSeconds: Int64?
        let message: String
    }

    /// - Returns: the new record, and the ZIP entry if the picture is a new one.
    private func fetch(
        _ key: PictureKey, _ record: PictureRecord, from target: Target
    ) async -> Result<(PictureRecord, entry: [UInt8]?), Failure> {
        let hosts = self.hosts(key.orderType)
        var request = FetchRequest(url: target.url) { hosts.allows(host: $0.host, port: $0.port) }
        (request.accept, request.sizeLimit) = self.content(of: target)
        if self.pictures.areDocuments, let secret = target.rules.authorization {
            request.authorization = (FetchOrigin(host: secret.host, port: secret.port), secret.value)
        }
        // In another form it is another file, also if the server's is the same.
        if record.content != nil, record.form.map({ $0.name == target.fit?.description }) ?? true {
            request.entityTag = record.entityTag
            request.lastModified = record.lastModified
        }
        let start = ContinuousClock.now
        defer {
            self.metrics.time.recordNanoseconds(Int64((ContinuousClock.now - start) / .nanoseconds(1)))
        }
        do throws(FetchError) {
            var fresh = record
            fresh.checkedEpochSeconds = self.now()
            fresh.attempts = 0
            fresh.restsUntilEpochSeconds = 0
            fresh.failure = nil
            var entry: [UInt8]?
            if case .content(let content) = try await self.fetcher.fetch(request) {
                do throws(PictureMaker.Failure) {
                    let made =
                        self.pictures.areDocuments
                        ? try PictureMaker.document(content.body, identifier: key.url)
                        : try await self.maker.make(content.body, of: key, target.fit, known: record)
                    if let file = made.file {
                        fresh.content = PictureRecord.Content(file.file)
                        fresh.form = made.form
                        entry = file.entry
                    }
                } catch {
                    return .failure(Failure(reason: error.reason, message: error.message))
                }
                fresh.entityTag = content.entityTag
                fresh.lastModified = content.lastModified
            }
            self.metrics.fetched.increment()
            return .success((fresh, entry))
        } catch {
            return .failure(
                Failure(
                    reason: PictureFailure(error), retryAfterSeconds: error.retryAfterSeconds, message: error.message))
        }
    }

    private func putOff(
        _ claim: inout Pictures.Claim, _ known: PictureRecord, _ failure: Failure, _ target: Target
    ) async throws {
        guard let reason = failure.reason else {
            _ = try await self.pictures.postpone(&claim, by: Self.soon)
            return
        }
        self.metrics.failed(reason)
        var record = known
        record.attempts += 1
        record.failure = String("\(reason.rawValue): \(failure.message)".prefix(Self.failureLimit))
        let step = self.retry.step(
            after: reason, attempts: record.attempts, retryAfterSeconds: failure.retryAfterSeconds)
        var metadata: Logger.Metadata = [
            "url": "\(Self.shown(target.url))", "reason": "\(reason.rawValue)", "error": "\(failure.message)",
            "attempt": "\(record.attempts)",
        ]
        switch step {
        case .again(let delay):
            metadata["again"] = "\(delay)"
            try await self.save(record, for: claim.key, target)
            _ = try await self.pictures.postpone(&claim, by: delay)
        case .giveUp(let rest):
            metadata["rests"] = "\(rest) s"
            record.attempts = 0
            record.restsUntilEpochSeconds = self.now() + rest
            // Before the waiting orders are dismissed, so that no order starts to wait in between.
            try await self.save(record, for: claim.key, target)
            try await self.pictures.finish(claim, dismissing: true, otherwiseAgainAfter: Self.soon)
        }
        if let order = claim.key.orderKey { metadata["order"] = "\(order)" }
        let what = self.pictures.areDocuments ? "document" : "picture"
        self.logger.warning("cannot fetch \(what)", metadata: metadata)
    }

    /// Repackages the orders that wait.
    ///
    /// - Returns: false if another worker has the picture by now.
    private func serve(_ claim: inout Pictures.Claim) async throws -> Bool {
        var cursor: String? = "0"
        while let from = cursor {
            let (waiting, next) = try await self.pictures.waiting(for: claim.key, from: from)
            cursor = next
            for part in waiting.chunks(of: Self.orderCount) {
                try Task.checkCancellation()
                let ready = try await self.ready(part)
                // Each once: the scan may give an order twice.
                let postponed = try await self.repackage(Array(Set(ready.map(\.order))))
                try await self.pictures.removeWaiting(
                    ready.filter { !postponed.contains($0.order) }, for: claim.key)
                guard try await self.pictures.postpone(&claim, by: Self.lease) else { return false }
            }
        }
        return true
    }

    /// Returns the orders whose version is written, or will not be: what a worker noted before it died is noted again
    /// when its changes are redelivered.
    private func ready(_ waiting: [Pictures.Waiting]) async throws -> [Pictures.Waiting] {
        let stored = try await self.store.storedVersions(waiting.map(\.order))
        return zip(waiting, stored).filter { waiting, stored in
            self.now() - waiting.sinceEpochSeconds > Self.patienceSeconds
                || (stored?.version ?? 0) >= waiting.version
        }.map(\.0)
    }

    /// Returns a URL without query and fragment, which may hold a key.
    static func shown(_ url: String) -> String { String(url.prefix { $0 != "?" && $0 != "#" }) }
}

/// The schedule of retries for a picture or a document that could not be fetched.
///
/// After a temporary failure: exponential from two seconds to an hour, for about two hours; a document, which no later
/// order names, for about a day. After a failure of the
/// picture itself (not there yet, no picture, a host that is not allowed): after a minute, ten minutes, an hour and six
/// hours, since people upload pictures late and correct mistakes. After that the orders no longer wait for the picture,
/// and it rests until an order names it again later.
struct PictureRetry: Sendable {
    /// The length of a second in the schedule; tests make it short.
    var second: Duration = .seconds(1)
    /// Temporary failures in a row until it is given up.
    var attemptLimit: Int64 = 13

    /// That of an own document.
    static let ofDocuments = PictureRetry(attemptLimit: 36)

    /// The action after a failure.
    enum Step: Hashable, Sendable {
        case again(after: Duration)
        case giveUp(restSeconds: Int64)
    }

    private static let slowDelays: [Int64] = [60, 600, 3600, 6 * 3600]
    private static let longestDelay: Int64 = 3600

    /// - Parameters:
    ///   - attempts: failures in a row, this one included, from 1.
    ///   - retryAfterSeconds: the delay that the server requests.
    func step(after failure: PictureFailure, attempts: Int64, retryAfterSeconds: Int64? = nil) -> Step {
        guard failure.isTemporary else {
            guard attempts <= Self.slowDelays.count else { return .giveUp(restSeconds: 24 * 3600) }
            return self.again(Self.slowDelays[Int(max(1, attempts)) - 1])
        }
        guard attempts < self.attemptLimit else { return .giveUp(restSeconds: 3600) }
        let delay = 1 << min(max(attempts, 1), 12)
        let wish = min(max(retryAfterSeconds ?? 0, 0), Self.longestDelay)
        return self.again(min(max(Int64(delay), wish), Self.longestDelay))
    }

    private func again(_ seconds: Int64) -> Step { .again(after: self.second * Double(seconds)) }
}
