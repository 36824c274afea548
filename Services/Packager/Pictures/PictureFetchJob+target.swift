import Fetch
import Model
import Packaging
import Store

/// Where a picture or a document comes from, and where it goes.
extension PictureFetchJob {
    /// The URL of a fetch, with what belongs to it.
    struct Target {
        let url: String
        /// The identifiers of all documents that the order names; none for a picture.
        var named: [String] = []
        var rules = DocumentRules.none
        /// The form of a picture; nil leaves it as it is.
        var fit: PictureFit?
    }

    /// The place of the URL to fetch.
    enum Place {
        case target(Target)
        /// The version that names it is about to be written.
        case soon
        /// Nobody needs it any more.
        case none
    }

    /// The hosts that it may come from, with the present brand.
    func hosts(_ type: OrderTypeIdentifier) -> PictureHosts {
        let packager = self.packager(type)
        return (self.pictures.areDocuments ? packager?.documents.hosts : packager?.pictureHosts) ?? .none
    }

    /// Returns the types that are asked for, and the most bytes of one.
    func content(of target: Target) -> (accept: String, sizeLimit: Int) {
        if self.pictures.areDocuments { return ("application/pdf, image/png, image/jpeg", target.rules.sizeLimit) }
        if target.fit == nil { return ("image/png, image/jpeg", PictureFile.sizeLimit) }
        return ("image/png, image/jpeg, image/webp", PictureFit.fetchLimit)
    }

    /// Finds the URL of a picture: the one from the order that began to wait last, since its signature is valid
    /// longest. That of a document is in its order as it is now, or an event had a newer one.
    func place(of key: PictureKey) async throws -> Place {
        let waiting = try await self.pictures.waiting(for: key, from: "0").orders
        let last = waiting.max { $0.sinceEpochSeconds < $1.sinceEpochSeconds }
        guard let order = key.orderKey else {
            var target = Target(url: last?.url ?? key.url)
            if let packager = self.packager(key.orderType), let background = packager.pictureHosts.background {
                guard let place = try await self.place(of: key, in: waiting, packager) else { return .soon }
                target.fit = PictureFit(place, on: background)
            }
            return .target(target)
        }
        guard let last, let packager = self.packager(key.orderType) else { return .none }
        let isAwaited = self.now() - last.sinceEpochSeconds <= Self.patienceSeconds
        switch try await self.store.orders([order]).first {
        case .success(let stored?)?:
            guard !stored.state.isRemoved else { return .none }
            if stored.state.version < last.version, isAwaited { return .soon }
            // A document is fetched only for a version that is packaged.
            guard stored.isPackaged else { return .none }
            let documents = packager.pictures(of: stored.state).filter(\.isDocument)
            guard let document = documents.first(where: { $0.key == key }) else { return .none }
            return .target(
                Target(url: last.url ?? document.url, named: documents.map(\.key.url), rules: packager.documents))
        case .failure(let error)? where !error.origin.isRetriable: return .none
        case .success, .failure, nil: return isAwaited ? .soon : .none
        }
    }

    /// Returns the place at which orders show a picture; nil while their versions are about to be written.
    ///
    /// The first ones decide: of a picture that many orders wait for, the last ones are never written.
    private func place(
        of key: PictureKey, in waiting: [Pictures.Waiting], _ packager: OrderPackager
    ) async throws -> PictureFit.Place? {
        let first = Array(waiting.sorted { $0.sinceEpochSeconds < $1.sinceEpochSeconds }.prefix(Self.judgedCount))
        var isAwaited = false
        for (waiting, stored) in zip(first, try await self.store.orders(first.map(\.order))) {
            if case .success(let stored?) = stored, stored.state.version >= waiting.version {
                if let place = packager.place(of: key, in: stored.state) { return place }
            } else {
                isAwaited = isAwaited || self.now() - waiting.sinceEpochSeconds <= Self.patienceSeconds
            }
        }
        return isAwaited ? nil : .square
    }

    /// Refuses a document while those of its brand have as many bytes as they may have.
    ///
    /// - Throws: `Failure`, `StoreError`.
    func checkRoom(for key: PictureKey, _ target: Target) async throws {
        guard self.pictures.areDocuments else { return }
        guard try await self.documentBytes.all()[key.orderType] ?? 0 < target.rules.brandLimit else {
            throw Self.full(target)
        }
    }

    private static func full(_ target: Target) -> Failure {
        Failure(
            reason: .noRoom,
            message: "the documents of the brand have the \(target.rules.brandLimit) bytes that "
                + "documents.brandBytes in brand.json allows")
    }

    /// Keeps what was fetched.
    ///
    /// - Returns: false if the order has no package any more.
    /// - Throws: `Failure` if there is no room for it, `StoreError`.
    func keep(_ record: PictureRecord, _ entry: [UInt8]?, for key: PictureKey, _ target: Target) async throws -> Bool {
        guard self.pictures.areDocuments else {
            // The asset first: a record without one would be fetched again.
            if let asset = record.content?.asset, let entry { try await self.store.putAssets([(asset, entry)]) }
            try await self.pictures.save(record, for: key)
            return true
        }
        let bytes = Int64(entry?.count ?? 0)
        // Before the document, so that no two take the last room.
        var added = bytes
        guard try await self.documentBytes.add(added, of: key.orderType) <= target.rules.brandLimit else {
            try await self.documentBytes.add(-added, of: key.orderType)
            throw Self.full(target)
        }
        let outcome: Pictures.DocumentOutcome
        do {
            outcome = try await self.pictures.saveDocument(
                record, for: key, entry: entry, named: target.named, limit: target.rules.orderLimit)
        } catch {
            _ = try? await self.documentBytes.add(-added, of: key.orderType)
            throw error
        }
        if case .saved(let ended) = outcome { added = ended }
        if added > 0 { try await self.documentBytes.add(-added, of: key.orderType) }
        switch outcome {
        case .saved: return true
        case .unpackaged: return false
        case .overfull:
            throw Failure(
                reason: .noRoom,
                message: "with its \(bytes) bytes the order's documents would have more than the "
                    + "\(target.rules.orderLimit) that documents.orderBytes in brand.json allows")
        }
    }

    /// Notes a failure.
    func save(_ record: PictureRecord, for key: PictureKey, _ target: Target) async throws {
        guard self.pictures.areDocuments else { return try await self.pictures.save(record, for: key) }
        _ = try await self.pictures.saveDocument(
            record, for: key, entry: nil, named: target.named, limit: target.rules.orderLimit)
    }
}
