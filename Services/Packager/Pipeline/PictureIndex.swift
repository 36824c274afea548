import CoreMetrics
import Model
import Packaging
import Store

/// A picture that an order names by URL.
struct OrderPicture: Sendable {
    let url: String
    /// The identity of the picture: its URLs may differ in parts that only grant access.
    let key: PictureKey
}

/// Finds the pictures of orders that are being packaged, and has the missing ones fetched.
struct PictureIndex: Sendable {
    /// The time for which a picture is used without checking whether it has changed, in seconds.
    static let freshSeconds: Int64 = 24 * 3600

    let pictures: Pictures
    let metrics: PictureMetrics

    /// The pictures that were found for some orders.
    struct Found: Sendable {
        /// The pictures by order type and identity.
        var shown: [OrderTypeIdentifier: OrderPackager.Shown] = [:]
        /// Those of them that must be checked for changes.
        var stale: Set<PictureKey> = []
        /// Pictures that were given up for the time being: no order waits for them.
        var resting: Set<PictureKey> = []

        /// Adds a picture, judged by its record.
        mutating func add(_ record: PictureRecord?, for key: PictureKey, nowEpochSeconds now: Int64) {
            let rests = (record?.restsUntilEpochSeconds ?? 0) > now
            if rests { self.resting.insert(key) }
            guard let record, let file = record.content.flatMap(PictureFile.init) else { return }
            self.shown[key.orderType, default: [:]][key.url] = file
            if now - record.checkedEpochSeconds >= PictureIndex.freshSeconds, !rests { self.stale.insert(key) }
        }
    }

    /// Looks up the pictures that orders need.
    func find(for drafts: [OrderDraft], nowEpochSeconds now: Int64) async throws(StoreError) -> Found {
        var found = Found()
        let keys = Array(Set(drafts.flatMap { $0.pictures.map(\.key) }))
        for (key, record) in zip(keys, try await self.pictures.records(keys)) {
            found.add(record, for: key, nowEpochSeconds: now)
        }
        return found
    }

    /// Notes in Redis which pictures the orders with a new version wait for. Called before the versions are written, so
    /// that no crash loses it; a worker that gets a picture before the version is written waits for the version.
    func note(_ drafts: [OrderDraft], _ found: Found, nowEpochSeconds now: Int64) async throws(StoreError) {
        var waiting: [PictureKey: [Pictures.Waiting]] = [:]
        for draft in drafts where draft.result.effect == .changed {
            guard let package = draft.package, let version = draft.state?.version else { continue }
            self.metrics.omitted.increment(by: package.missingPictures.count)
            for picture in draft.pictures where !found.resting.contains(picture.key) {
                let (key, url) = (picture.key, picture.url)
                guard package.missingPictures.contains(url) || found.stale.contains(key) else { continue }
                waiting[key, default: []].append(
                    Pictures.Waiting(
                        order: draft.key, version: version, sinceEpochSeconds: now, url: url == key.url ? nil : url))
            }
        }
        self.metrics.unnoted.increment(by: try await self.pictures.addWaiting(waiting))
    }
}

extension PictureFile {
    /// Reads the record in Redis; nil if it is damaged.
    init?(_ content: PictureRecord.Content) {
        self.init(
            name: content.name, contentDigest: content.contentDigest, asset: content.asset,
            checksum: content.checksum, size: content.size)
    }
}

extension PictureRecord.Content {
    /// The record for Redis.
    init(_ file: PictureFile) {
        self.init(
            name: file.name, contentDigest: file.contentDigest, asset: file.asset.rawValue,
            checksum: Int64(file.checksum), size: Int64(file.size))
    }
}
