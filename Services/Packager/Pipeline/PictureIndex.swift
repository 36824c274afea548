import CoreMetrics
import Fetch
import Model
import Operations
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

    /// Notes in Redis which pictures those orders wait for whose version is packaged for the first time. Called before
    /// the write, so that no crash loses it; a worker that gets a picture before the version is written waits for it.
    func note(_ drafts: [OrderDraft], _ found: Found, nowEpochSeconds now: Int64) async throws(StoreError) {
        var waiting: [PictureKey: [Pictures.Waiting]] = [:]
        for draft in drafts where draft.result.effect == .changed || draft.stored?.isPackaged == false {
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

/// The reasons for a failure to get a picture, as metrics and logs name them.
enum PictureFailure: String, CaseIterable, Sendable {
    case url = "url"
    case hostNotAllowed = "host_not_allowed"
    case addressNotAllowed = "address_not_allowed"
    case redirects = "redirects"
    case notFound = "not_found"
    case refused = "refused"
    case serverError = "server_error"
    case tooLarge = "too_large"
    case notAPicture = "not_a_picture"
    case timeout = "timeout"
    case connection = "connection"
    case tls = "tls"

    /// True if a retry may succeed soon.
    var isTemporary: Bool {
        switch self {
        case .serverError, .timeout, .connection, .tls: true
        case .url, .hostNotAllowed, .addressNotAllowed, .redirects, .notFound, .refused, .tooLarge, .notAPicture: false
        }
    }

    /// - Returns: nil if the picture is not the cause: the fetcher was busy, or is stopping.
    init?(_ error: FetchError) {
        switch error.code {
        case .url: self = .url
        case .hostNotAllowed: self = .hostNotAllowed
        case .addressNotAllowed: self = .addressNotAllowed
        case .tooManyRedirects: self = .redirects
        case .status(404), .status(410): self = .notFound
        // Too many requests, or one that took too long: temporary. Source: RFC 9110 §15.5, RFC 6585 §4
        case .status(408), .status(425), .status(429), .status(500...): self = .serverError
        case .status: self = .refused
        case .tooLarge: self = .tooLarge
        case .timeout: self = .timeout
        case .connection, .malformed: self = .connection
        case .tls: self = .tls
        case .busy, .cancelled, .closed, .library: return nil
        }
    }
}

/// The metrics of pictures from URLs.
struct PictureMetrics: Sendable {
    /// Pictures that were fetched, anew or unchanged.
    let fetched: Counter
    /// Pictures that were left out of packages for the time being.
    let omitted: Counter
    /// Pictures that could not be waited for because too many already are.
    let unnoted: Counter
    /// Pictures that are waited for, by all workers.
    let waiting: Gauge
    /// The duration of a fetch, including failed ones.
    let time: Timer
    private let failures: [PictureFailure: Counter]

    init(factory: any MetricsFactory) {
        self.fetched = Counter(label: "waybill_pictures_fetched_total", factory: factory)
        self.omitted = Counter(label: "waybill_pictures_omitted_total", factory: factory)
        self.unnoted = Counter(label: "waybill_pictures_unnoted_total", factory: factory)
        self.waiting = Gauge(label: "waybill_pictures_waiting", factory: factory)
        self.time = Timer(label: "waybill_picture_fetch_seconds", factory: factory)
        self.failures = Dictionary(label: "waybill_picture_failures_total", by: "reason", factory: factory)
    }

    func failed(_ reason: PictureFailure) { self.failures[reason]?.increment() }
}
