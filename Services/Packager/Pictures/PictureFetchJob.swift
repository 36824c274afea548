import CoreMetrics
import Fetch
import Foundation
import Logging
import Model
import Packaging
import Store

/// Gets one picture and packages the orders anew that wait for it.
struct PictureFetchJob: Sendable {
    /// The time for which a worker owns a picture; renewed while it works on it.
    static let lease: Duration = .seconds(60)
    /// When to look again whether a version is written that is about to be.
    private static let soon: Duration = .seconds(1)
    /// The longest time to wait for a version that is about to be written, in seconds. After it, the version's changes
    /// come again and find the picture.
    static let patienceSeconds: Int64 = 15 * 60
    /// Orders that are packaged at once.
    private static let orderCount = 50

    let pictures: Pictures
    let store: OrderStore
    let fetcher: Fetcher
    /// Packages orders anew where that makes a difference, and announces the new versions.
    let repackage: @Sendable ([OrderKey]) async throws -> Void
    /// Returns the hosts that pictures of an order type may come from, with the present brands.
    let hosts: @Sendable (OrderTypeIdentifier) -> PictureHosts
    let metrics: PictureMetrics
    let logger: Logger
    var retry = PictureRetry()
    /// Seconds since 1970.
    var now: @Sendable () -> Int64 = { Int64(Date().timeIntervalSince1970) }

    /// Does all of it once.
    ///
    /// Trying again is safe at any point: the picture is due again when the lease ends.
    /// - Parameter claim: follows the lease.
    /// - Throws: `StoreError` and what `repackage` throws.
    func run(_ claim: inout Pictures.Claim) async throws {
        var record = try await self.pictures.records([claim.key]).first.flatMap(\.self) ?? PictureRecord()
        if record.content == nil || self.now() - record.checkedEpochSeconds >= PictureIndex.freshSeconds {
            switch await self.fetch(claim.key, record, from: try await self.url(of: claim.key)) {
            case .success(let (fresh, entry)):
                record = fresh
                // The asset first: a record without one would be fetched again.
                if let asset = record.content?.asset, let entry { try await self.store.putAssets([(asset, entry)]) }
                try await self.pictures.save(record, for: claim.key)
            case .failure(let failure):
                return try await self.putOff(&claim, record, failure)
            }
        }
        guard try await self.serve(&claim) else { return }
        try await self.pictures.finish(claim, dismissing: false, otherwiseAgainAfter: Self.soon)
    }

    /// A failed fetch; the reason is nil if the picture is not the cause.
    private struct Failure: Error {
        let reason: PictureFailure?
        let retryAfterSeconds: Int64?
        let message: String
    }

    /// The URL to fetch: the one from the order that began to wait last, since its signature is valid longest.
    private func url(of key: PictureKey) async throws -> String {
        let waiting = try await self.pictures.waiting(for: key, from: "0").orders
        return waiting.max { $0.sinceEpochSeconds < $1.sinceEpochSeconds }?.url ?? key.url
    }

    /// - Returns: what is known now, and the ZIP entry if the picture is a new one.
    private func fetch(
        _ key: PictureKey, _ record: PictureRecord, from url: String
    ) async -> Result<(PictureRecord, entry: [UInt8]?), Failure> {
        let hosts = self.hosts(key.orderType)
        var request = FetchRequest(url: url) { hosts.allows(host: $0.host, port: $0.port) }
        request.accept = "image/png, image/jpeg"
        request.sizeLimit = PictureFile.sizeLimit
        if record.content != nil {
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
            var entry: [UInt8]?
            if case .content(let content) = try await self.fetcher.fetch(request) {
                let made: (file: PictureFile, entry: [UInt8])
                do throws(PictureFault) {
                    made = try PictureFile.make(url: key.url, content: content.body)
                } catch {
                    return .failure(Failure(reason: .notAPicture, retryAfterSeconds: nil, message: "\(error)"))
                }
                fresh.content = PictureRecord.Content(made.file)
                fresh.entityTag = content.entityTag
                fresh.lastModified = content.lastModified
                entry = made.entry
            }
            self.metrics.fetched.increment()
            return .success((fresh, entry))
        } catch {
            return .failure(
                Failure(
                    reason: PictureFailure(error), retryAfterSeconds: error.retryAfterSeconds, message: error.message))
        }
    }

    private func putOff(_ claim: inout Pictures.Claim, _ known: PictureRecord, _ failure: Failure) async throws {
        guard let reason = failure.reason else {
            _ = try await self.pictures.postpone(&claim, by: Self.soon)
            return
        }
        self.metrics.failed(reason)
        var record = known
        record.attempts += 1
        let step = self.retry.step(
            after: reason, attempts: record.attempts, retryAfterSeconds: failure.retryAfterSeconds)
        var metadata: Logger.Metadata = [
            "url": "\(Self.shown(claim.key.url))", "reason": "\(reason.rawValue)", "error": "\(failure.message)",
            "attempt": "\(record.attempts)",
        ]
        switch step {
        case .again(let delay):
            metadata["again"] = "\(delay)"
            try await self.pictures.save(record, for: claim.key)
            _ = try await self.pictures.postpone(&claim, by: delay)
        case .giveUp(let rest):
            metadata["rests"] = "\(rest) s"
            record.attempts = 0
            record.restsUntilEpochSeconds = self.now() + rest
            // Before those who wait are sent away, so that nobody comes to wait in between.
            try await self.pictures.save(record, for: claim.key)
            try await self.pictures.finish(claim, dismissing: true, otherwiseAgainAfter: Self.soon)
        }
        self.logger.warning("cannot fetch picture", metadata: metadata)
    }

    /// Packages those anew who wait.
    ///
    /// - Returns: false when somebody else has the picture by now.
    private func serve(_ claim: inout Pictures.Claim) async throws -> Bool {
        var cursor: String? = "0"
        while let from = cursor {
            let (waiting, next) = try await self.pictures.waiting(for: claim.key, from: from)
            cursor = next
            for start in stride(from: 0, to: waiting.count, by: Self.orderCount) {
                try Task.checkCancellation()
                let part = Array(waiting[start..<min(start + Self.orderCount, waiting.count)])
                let ready = try await self.ready(part)
                // Each once: the scan may give an order twice.
                try await self.repackage(Array(Set(ready.map(\.order))))
                try await self.pictures.removeWaiting(ready, for: claim.key)
                guard try await self.pictures.postpone(&claim, by: Self.lease) else { return false }
            }
        }
        return true
    }

    /// Those whose version stands, or will not come: what a worker noted before it died is noted again when its changes
    /// come again.
    private func ready(_ waiting: [Pictures.Waiting]) async throws -> [Pictures.Waiting] {
        let stored = try await self.store.orders(waiting.map(\.order))
        return zip(waiting, stored).filter { waiting, stored in
            if self.now() - waiting.sinceEpochSeconds > Self.patienceSeconds { return true }
            // A damaged order is nothing that waiting would mend.
            guard case .success(let order) = stored else { return true }
            return (order?.state.version ?? 0) >= waiting.version
        }.map(\.0)
    }

    /// Without query and fragment, which may hold a key.
    static func shown(_ url: String) -> String { String(url.prefix { $0 != "?" && $0 != "#" }) }
}
