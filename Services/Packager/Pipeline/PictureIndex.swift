import CoreMetrics
import Fetch
import Model
import Operations
import Packaging
import Redis
import Store

/// A picture, or an own document, that an order names by URL.
struct OrderPicture: Sendable {
    let url: String
    /// The identity of the picture: its URLs may differ in parts that only grant access.
    let key: PictureKey

    var isDocument: Bool { self.key.order != nil }
}

/// Finds the pictures and the own documents of orders that are being packaged, and has the missing ones fetched.
struct PictureIndex: Sendable {
    /// The time for which a picture is used without checking whether it has changed, in seconds.
    static let freshSeconds: Int64 = 24 * 3600

    let pictures: Pictures
    let metrics: PictureMetrics
    /// Those of the orders' own documents.
    let documents: Pictures
    let documentMetrics: PictureMetrics
    let documentBytes: OwnDocumentBytes

    init(redis: RedisClient, factory: any MetricsFactory) {
        self.pictures = Pictures(redis: redis)
        self.metrics = PictureMetrics(factory: factory)
        self.documents = Pictures(redis: redis, areDocuments: true)
        self.documentMetrics = PictureMetrics(areDocuments: true, factory: factory)
        self.documentBytes = OwnDocumentBytes(redis: redis)
    }

    /// The pictures and documents that were found for some orders.
    struct Found: Sendable {
        /// The pictures by order type and identity.
        private var pictures: [OrderTypeIdentifier: OrderPackager.Shown] = [:]
        /// The own documents by order and identifier.
        private var documents: [OrderKey: OrderPackager.Shown] = [:]
        /// Those of them that must be checked for changes.
        var stale: Set<PictureKey> = []
        /// Pictures that were given up for the time being: no order waits for them.
        var resting: Set<PictureKey> = []

        /// The files for an order: the pictures of its type, and its own documents. Never those of another order.
        func shown(to order: OrderKey) -> OrderPackager.Shown {
            let pictures = self.pictures[order.orderType] ?? [:]
            // The identifier of a document is no URL.
            return self.documents[order].map { pictures.merging($0) { first, _ in first } } ?? pictures
        }

        func has(_ key: PictureKey) -> Bool {
            key.orderKey.map { self.documents[$0]?[key.url] != nil }
                ?? (self.pictures[key.orderType]?[key.url] != nil)
        }

        /// Adds a picture or a document, judged by its record.
        mutating func add(_ record: PictureRecord?, for key: PictureKey, nowEpochSeconds now: Int64) {
            let rests = (record?.restsUntilEpochSeconds ?? 0) > now
            if rests { self.resting.insert(key) }
            guard let record, let file = record.content.flatMap(PictureFile.init) else { return }
            if let order = key.orderKey {
                // A document stays as it was fetched: one that changes gets another URL.
                self.documents[order, default: [:]][key.url] = file
                return
            }
            self.pictures[key.orderType, default: [:]][key.url] = file
            if now - record.checkedEpochSeconds >= PictureIndex.freshSeconds, !rests { self.stale.insert(key) }
        }
    }

    /// Looks up the pictures and documents that orders need.
    func find(for drafts: [OrderDraft], nowEpochSeconds now: Int64) async throws(StoreError) -> Found {
        var found = Found()
        for (key, record) in try await self.records(Array(Set(drafts.flatMap { $0.pictures.map(\.key) }))) {
            found.add(record, for: key, nowEpochSeconds: now)
        }
        return found
    }

    /// Reads what is stored of pictures and documents, in any order.
    func records(_ keys: [PictureKey]) async throws(StoreError) -> [(PictureKey, PictureRecord?)] {
        let (pictures, documents) = (keys.filter { $0.order == nil }, keys.filter { $0.order != nil })
        let found = try await self.pictures.records(pictures)
        return Array(zip(pictures, found)) + zip(documents, try await self.documents.records(documents))
    }

    /// Notes in Redis which pictures those orders wait for whose version is packaged for the first time. Called before
    /// the write, so that no crash loses it; a worker that gets a picture before the version is written waits for it.
    func note(_ drafts: [OrderDraft], _ found: Found, nowEpochSeconds now: Int64) async throws(StoreError) {
        var waiting: [PictureKey: [Pictures.Waiting]] = [:]
        for draft in drafts where draft.result.effect == .changed || draft.stored?.isPackaged == false {
            guard let package = draft.package, let version = draft.state?.version else { continue }
            for picture in draft.pictures {
                let (key, url) = (picture.key, picture.url)
                let isMissing = package.missingPictures.contains(url)
                if isMissing { (picture.isDocument ? self.documentMetrics : self.metrics).omitted.increment() }
                guard isMissing || found.stale.contains(key), !found.resting.contains(key) else { continue }
                // The URL of a document is in its order, unless another one lasts longer.
                let own = picture.isDocument ? draft.result.renewedLinks[url] : url == key.url ? nil : url
                waiting[key, default: []].append(
                    Pictures.Waiting(order: draft.key, version: version, sinceEpochSeconds: now, url: own))
            }
        }
        let documents = waiting.filter { $0.key.order != nil }
        let pictures = documents.isEmpty ? waiting : waiting.filter { $0.key.order == nil }
        self.metrics.unnoted.increment(by: try await self.pictures.addWaiting(pictures))
        self.documentMetrics.unnoted.increment(by: try await self.documents.addWaiting(documents))
    }
}

extension PictureIndex {
    /// Notes, for orders that did not change, the newest URLs of documents that their packages do not have: signatures
    /// end.
    func renew(
        _ drafts: [OrderDraft], nowEpochSeconds now: Int64, packager: (OrderTypeIdentifier) -> OrderPackager?
    ) async throws(StoreError) {
        var waiting: [PictureKey: [Pictures.Waiting]] = [:]
        for draft in drafts where draft.result.effect != .changed {
            guard let stored = draft.stored, stored.isPackaged, let packager = packager(draft.key.orderType) else {
                continue
            }
            for document in packager.pictures(of: stored.state) where document.isDocument {
                guard let url = draft.result.renewedLinks[document.url],
                    !stored.shared.contains(where: { OwnDocument.isReference($0, to: document.key.url) })
                else { continue }
                waiting[document.key] = [
                    Pictures.Waiting(
                        order: draft.key, version: stored.state.version, sinceEpochSeconds: now, url: url)
                ]
            }
        }
        self.documentMetrics.unnoted.increment(by: try await self.documents.addWaiting(waiting))
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
    case tooManyPixels = "too_many_pixels"
    case damaged = "damaged"
    /// Decoding takes more processor time than it may.
    case slow = "slow"
    /// Decoding takes more memory than it may.
    case memory = "memory"
    /// The process that decodes it ended, without saying why.
    case decoderCrashed = "decoder_crashed"
    /// There is no process that decodes it.
    case noDecoder = "no_decoder"
    case notADocument = "not_a_document"
    /// The documents of the order, or of the brand, would have more bytes than they may have.
    case noRoom = "no_room"
    case timeout = "timeout"
    case connection = "connection"
    case tls = "tls"

    /// True if a retry may succeed soon.
    var isTemporary: Bool {
        switch self {
        case .serverError, .timeout, .connection, .tls, .noDecoder: true
        case .url, .hostNotAllowed, .addressNotAllowed, .redirects, .notFound, .refused, .tooLarge, .notAPicture,
            .tooManyPixels, .damaged, .slow, .memory, .decoderCrashed, .notADocument, .noRoom:
            false
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

/// The metrics of pictures from URLs, or of the orders' own documents.
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
    private let factory: any MetricsFactory

    /// - Parameter areDocuments: true for the orders' own documents.
    init(areDocuments: Bool = false, factory: any MetricsFactory) {
        func label(_ picture: String, _ document: String) -> String { areDocuments ? document : picture }
        self.fetched = Counter(
            label: label("waybill_pictures_fetched_total", "waybill_own_documents_fetched_total"), factory: factory)
        self.omitted = Counter(
            label: label("waybill_pictures_omitted_total", "waybill_own_documents_omitted_total"), factory: factory)
        self.unnoted = Counter(
            label: label("waybill_pictures_unnoted_total", "waybill_own_documents_unnoted_total"), factory: factory)
        self.waiting = Gauge(
            label: label("waybill_pictures_waiting", "waybill_own_documents_waiting"), factory: factory)
        self.time = Timer(
            label: label("waybill_picture_fetch_seconds", "waybill_own_document_fetch_seconds"), factory: factory)
        self.failures = Dictionary(
            label: label("waybill_picture_failures_total", "waybill_own_document_failures_total"), by: "reason",
            factory: factory)
        self.factory = factory
    }

    /// Records the bytes that the documents of a brand have, and may have.
    func record(bytes: Int64, of limit: Int64, _ type: OrderTypeIdentifier) {
        let brand = [("brand", type.rawValue)]
        Gauge(label: "waybill_own_document_bytes", dimensions: brand, factory: self.factory).record(bytes)
        Gauge(label: "waybill_own_document_limit_bytes", dimensions: brand, factory: self.factory).record(limit)
    }

    func failed(_ reason: PictureFailure) { self.failures[reason]?.increment() }
}
