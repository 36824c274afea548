public import Model
public import Redis

/// The orders from the packager's point of view: it reads states, and writes states and packages, each write a
/// compare-and-set.
///
/// All calls are pipelined over many orders; a failure of one order affects it alone.
public struct OrderStore: Sendable {
    /// The time for which an order that does not exist is kept, in seconds: the trace of a removed one, and what waits
    /// for it. The trace stops a redelivered change from bringing the order back, so it must outlive any redelivery; a
    /// week is Kafka's default retention.
    public static let removedSeconds: Int64 = 7 * 24 * 3600

    /// The time for which the removal of an order is remembered, in seconds, by a key of some 130 bytes. For that long
    /// a client with its token gets that answer; then the order counts as one that may still be created.
    public static let goneSeconds: Int64 = 90 * 24 * 3600

    let redis: RedisClient
    var view: ViewEpochCache?
    let records: ColdOrderRecords?
    private let present = PresentAssets()
    /// The lifetimes of unused assets. The same for all packagers.
    var timing = AssetTiming()

    /// - Parameters:
    ///   - view: ensures that no order is read from a view that is not complete; nil reads the present keys.
    ///   - records: reads cold orders; if nil, reading one fails with `.cold`.
    public init(redis: RedisClient, view: ViewEpochCache? = nil, records: ColdOrderRecords? = nil) {
        self.redis = redis
        self.view = view
        self.records = records
    }

    /// The parcels of the orders, in the same Redis.
    public var parcels: ParcelIndex { ParcelIndex(store: self) }

    /// An order as stored in Redis, without the bytes of its package.
    public struct StoredOrder: Sendable {
        public let state: OrderState
        /// Changes with each write of the order, also with one that keeps the version.
        public let revision: Int64
        /// Without quotes; empty for a removed order, and for a version without a package.
        public let entityTag: String
        /// Digests of what its package shares with others: the assets in the order of the archive, then the
        /// certificates. None for a version without a package.
        public let shared: [String]
        /// The certificates inside the package's signature; empty if not known.
        public var signer = ""
        /// Digest of everything in the package of this version except the signature; empty if it had none. A version
        /// that was restored has it before its package is made again.
        public var content = ""
        /// The version that is not known to be published, empty if there is none.
        public var unpublished = ""
        /// The version whose record was acknowledged last, empty if that is not known.
        var publishedVersion = ""
        /// The record that has all of it; nil if that is not known.
        var record: PublishedRecord?
        /// Bytes of its document in Redis.
        public var documentBytes = 0
        /// True if a device was registered for it.
        public var hasDevices = false
        /// True if it was read from its record.
        public var isCold = false
        /// The UNIX second when a package was last asked for that had not been made; 0 for never.
        public var requestedEpochSeconds: Int64 = 0

        /// Digests of its assets, in the order of the archive.
        public var assets: [String] { self.shared.dropLast() }

        /// The same as `content`; nil for a version that had no package.
        public var contentIfKnown: String? { self.content.isEmpty ? nil : self.content }

        /// False for a removed order, and for a version whose package is made when it is asked for.
        public var isPackaged: Bool { !self.entityTag.isEmpty }

        /// True if the current version is known to be published, with all that devices are to be notified of.
        public var isPublished: Bool { self.publishedVersion == String(self.state.version) }

        /// True if it has to be announced again, whichever version is published.
        public var isToAnnounce: Bool { self.publishedVersion.hasPrefix(OrderState.untoldPrefix) }
    }

    /// Reads some orders.
    ///
    /// - Returns: one result per key, in order: nil for an unknown order, `StoreError` with code `.corrupt` for one
    ///   that cannot be parsed.
    /// - Throws: `StoreError` with code `.unavailable`, also if Redis answers with an error that is not about one
    ///   order: an order that merely could not be read at the moment must not count as damaged. With code `.incomplete`
    ///   if an order may only seem to be unknown.
    public func orders(_ keys: [OrderKey]) async throws(StoreError) -> [Result<StoredOrder?, StoreError>] {
        try await self.entries(keys).map { result in result.map(\.order) }
    }

    /// The write of one order.
    ///
    /// Immutable. A class, since it goes through several arrays and has dozens of parts that each copy would retain.
    public final class Write: Sendable {
        public enum Content: Sendable {
            /// A new version with its package; nil leaves the package to be made when it is asked for.
            case version(StoredPackage?)
            /// A new version that follows from no change, marked as unpublished until `acknowledge`.
            case unpublishedVersion(StoredPackage)
            /// The same version in a package with a new signature. Devices need not be notified.
            case signature(StoredPackage)
            /// The same version with its package, which was asked for at a UNIX second.
            case requested(StoredPackage, epochSeconds: Int64)
            /// The same version, which is about to be published again: its record is not known until then.
            case unrecorded
            /// The same version; only the applied positions advanced.
            case positions
            /// The same as `positions`; the version does not count as published until it is published again.
            case positionsToPublish
            /// The order is removed; only the data that idempotence needs stays, for a week.
            case removal
            /// The order does not exist; these changes wait until it does, for a week. The positions of a removed one
            /// advanced. Empty if none waits any more.
            case waiting([UInt8])
        }
        public let key: OrderKey
        /// Nil for an order that never was.
        public let state: OrderState?
        /// The revision that was read before, 0 if there was none.
        public let expectedRevision: Int64
        public let content: Content
        /// The digest of the content of an order that was cold, empty if it has none: then all of it is written. Nil
        /// for any other.
        let coldContent: String?
        /// True if it writes a version, whose parcels are to be noted.
        let hasParcels: Bool
        /// The parcels that the order had, and has no longer with this version.
        let formerParcels: [Parcel]
        /// True if the order had to be announced again when it was read.
        let isToAnnounce: Bool
        /// Bytes of the own documents that end with the order's package.
        let endedDocumentBytes: Int64
        /// Changes that are applied with the version that creates the order, and wait until their dead letters are
        /// closed: see `endWaiting`.
        public let waiting: [UInt8]

        /// Makes a write of an order as it was read.
        ///
        /// - Parameters:
        ///   - stored: nil for an order that did not exist.
        ///   - revision: the one without an order: that of the changes that waited for it; 0 for none.
        ///   - waiting: those of them that are applied, as their writer encoded them.
        public init(
            state: OrderState, after stored: StoredOrder? = nil, revision: Int64 = 0, waiting: [UInt8] = [],
            content: Content
        ) {
            self.key = state.key
            self.state = state
            self.expectedRevision = stored?.revision ?? revision
            self.content = content
            self.coldContent = stored?.isCold == true ? stored?.content : nil
            self.isToAnnounce = stored?.isToAnnounce ?? false
            self.waiting = waiting
            switch content {
            case .version(nil), .removal:
                self.endedDocumentBytes = stored?.shared.reduce(0) { $0 + OwnDocument.bytes(of: $1) } ?? 0
            default: self.endedDocumentBytes = 0
            }
            switch content {
            case .version, .unpublishedVersion, .removal:
                let parcels = state.isRemoved ? [:] : state.document.parcels
                self.hasParcels = !parcels.isEmpty
                self.formerParcels = (stored?.state.document.parcels ?? [:]).keys.filter { parcels[$0] == nil }
            case .signature, .requested, .unrecorded, .positions, .positionsToPublish, .waiting:
                (self.hasParcels, self.formerParcels) = (false, [])
            }
        }

        /// Makes a write of the changes that wait for an order.
        ///
        /// - Parameter removed: the state of a removed order; nil for one that never was.
        public init(waiting changes: [UInt8], for key: OrderKey, removed: OrderState?, expectedRevision: Int64) {
            self.key = key
            self.state = removed
            self.expectedRevision = expectedRevision
            self.content = .waiting(changes)
            self.coldContent = nil
            self.isToAnnounce = false
            self.endedDocumentBytes = 0
            self.waiting = []
            (self.hasParcels, self.formerParcels) = (false, [])
        }
    }

    /// The bytes of a package except those that it shares with others. The archive is assets, head, certificates, tail.
    public struct StoredPackage: Sendable {
        /// Digests, in the order of the archive.
        public let assets: [String]
        public let head: [UInt8]
        /// The digest of the beginning of the signature, which is stored as an asset.
        public let certificates: String
        public let tail: [UInt8]
        /// Without quotes.
        public let entityTag: String
        /// The certificates inside the signature.
        public let signer: String
        /// Digest of everything in the package except the signature.
        public let content: String

        /// - Parameters:
        ///   - signer: empty marks the order to be signed again.
        ///   - content: empty marks the order to be packaged again.
        public init(
            assets: [String], head: [UInt8], certificates: String, tail: [UInt8], entityTag: String,
            signer: String = "", content: String = ""
        ) {
            self.assets = assets
            self.head = head
            self.certificates = certificates
            self.tail = tail
            self.entityTag = entityTag
            self.signer = signer
            self.content = content
        }
    }

    /// The outcome of a write.
    public enum WriteOutcome: Hashable, Sendable {
        case written
        /// Another worker wrote in between: read and fold again.
        case conflict
        /// Redis refused this write, with its error text. If it is only a parcel that has no room, the order is
        /// written.
        case refused(String)
    }

    /// Writes some orders, each only if its revision is still the expected one.
    ///
    /// - Parameter begun: a time before any asset of these orders was looked up.
    /// - Returns: one outcome per write, in order.
    /// - Throws: `StoreError` with code `.unavailable`; then it is unknown which writes took place, and writing again
    ///   after reading again is safe.
    public func write(
        _ writes: [Write], begun: PackagingStart = .now
    ) async throws(StoreError) -> [WriteOutcome] {
        let outcomes = try await self.writeOrders(writes, begun)
        // After the orders: a version that was not written has no parcels.
        let refusals = try await self.parcels.note(
            zip(writes, outcomes).map { write, outcome in
                outcome == .written && write.hasParcels ? write.state : nil
            })
        await self.parcels.forget(
            zip(writes, outcomes).filter { $0.1 == .written }.map { write, _ in (write.key, write.formerParcels, nil) })
        for (write, outcome) in zip(writes, outcomes) where write.endedDocumentBytes > 0 && outcome == .written {
            // If it fails, the next sweep counts them.
            _ = try? await OwnDocumentBytes(redis: self.redis).add(-write.endedDocumentBytes, of: write.key.orderType)
        }
        return zip(outcomes, refusals).map { outcome, refusal in refusal.map { WriteOutcome.refused($0) } ?? outcome }
    }

    private func writeOrders(_ writes: [Write], _ begun: PackagingStart) async throws(StoreError) -> [WriteOutcome] {
        let invocations = writes.map { write -> RedisInvocation in
            var arguments: [RedisArgument] = [
                .integer(write.expectedRevision), .string(write.mode), .integer(Self.removedSeconds),
                .integer(self.lastMoment(assets: write.assets, begun)),
            ]
            arguments.append(write.fields)
            return RedisInvocation(
                StoreScripts.write, keys: [StoreKeys.order(write.key), StoreKeys.gone(write.key)],
                arguments: arguments)
        }
        let replies: [RedisValue]
        do {
            replies = try await self.redis.evaluate(invocations)
        } catch {
            throw StoreError("writing orders", error)
        }
        return replies.map { reply in
            switch reply {
            case .integer(1): .written
            case .integer: .conflict
            case .error(let message): .refused(message)
            case .string, .array, .null, .status: .refused("an unexpected reply")
            }
        }
    }

    /// Returns the millisecond after which an order may not be written; 0 for no limit, if no asset is named.
    func lastMoment(assets: [String], _ begun: PackagingStart) -> Int64 {
        assets.isEmpty ? 0 : begun.epochMilliseconds + self.timing.write.wholeMilliseconds
    }

    /// Removes the marks of published versions, each unless another one was set meanwhile, and notes which versions
    /// are published, each if it is still current.
    ///
    /// - Parameter orders: each with its mark as read from `StoredOrder.unpublished`, empty if there is none, and with
    ///   what was published.
    /// - Returns: the current versions, as `versions(of:)` does.
    public func acknowledge(_ orders: [(mark: String, Publication)]) async throws(StoreError) -> [Int64?] {
        try await self.evaluate(
            orders.map { mark, publication in
                RedisInvocation(
                    StoreScripts.acknowledge, keys: [StoreKeys.order(publication.state.key)],
                    arguments: publication.arguments + [.string(mark)])
            }, "settling orders"
        ).map(\.integer)
    }

    /// Ends the wait of changes that were applied when their orders were created.
    ///
    /// - Parameter orders: each with the changes as they were written, or read from its entry.
    public func endWaiting(_ orders: [(key: OrderKey, changes: [UInt8])]) async throws(StoreError) {
        _ = try await self.evaluate(
            orders.map {
                RedisInvocation(
                    StoreScripts.endWaiting, keys: [StoreKeys.order($0.key)], arguments: [.bytes($0.changes)])
            }, "ending the wait of changes")
    }

    /// Runs scripts.
    ///
    /// - Throws: also for a reply that is an error.
    func evaluate(_ invocations: [RedisInvocation], _ what: String) async throws(StoreError) -> [RedisValue] {
        guard !invocations.isEmpty else { return [] }
        let replies: [RedisValue]
        do {
            replies = try await self.redis.evaluate(invocations)
        } catch {
            throw StoreError(what, error)
        }
        for case .error(let message) in replies { throw StoreError(what, reply: message) }
        return replies
    }

    /// Writes assets that are missing.
    ///
    /// - Parameter assets: digest and ready ZIP entry.
    public func putAssets(_ assets: [(digest: String, entry: [UInt8])]) async throws(StoreError) {
        if let (_, message) = try await self.putEachAsset(assets).first {
            throw StoreError(.unavailable, "writing assets: \(message)")
        }
    }

    /// Writes assets that are missing, for a caller that can do without some of them.
    ///
    /// - Returns: the digests of those that Redis refused, with its error texts.
    private func putEachAsset(
        _ assets: [(digest: String, entry: [UInt8])]
    ) async throws(StoreError) -> [String: String] {
        guard !assets.isEmpty else { return [:] }
        let present: [RedisValue]
        do {
            present = try await self.redis.evaluate(
                assets.map {
                    RedisInvocation(
                        StoreScripts.useAsset, keys: [StoreKeys.asset($0.digest), StoreKeys.unusedMark($0.digest)],
                        arguments: [])
                })
        } catch {
            throw StoreError("looking for assets", error)
        }
        var refused: [String: String] = [:]
        var missing: [(digest: String, entry: [UInt8])] = []
        for (asset, reply) in zip(assets, present) {
            if case .error(let message) = reply {
                // It may still be marked as unused.
                refused[asset.digest] = message
            } else if reply.integer != 1 {
                missing.append(asset)
            }
        }
        guard !missing.isEmpty else { return refused }
        let replies = try await self.pipeline(
            missing.map { RedisCommand("SET", .string(StoreKeys.asset($0.digest)), .bytes($0.entry)) },
            "writing assets")
        for (asset, reply) in zip(missing, replies) {
            if case .error(let message) = reply { refused[asset.digest] = message }
        }
        return refused
    }

    /// Writes assets that are missing, for a caller that confirms the epochs afterwards: an asset that was found under
    /// them is not looked up again.
    public func putEachAsset(
        _ assets: [(digest: String, entry: [UInt8])], under epochs: MaterializedView.Epochs?
    ) async throws(StoreError) -> [String: String] {
        guard let epochs else { return try await self.putEachAsset(assets) }
        let now = ContinuousClock.now
        self.present.forget(seenBefore: now - self.timing.memory)
        let unseen = assets.filter { !self.present.contains($0.digest, under: epochs) }
        guard !unseen.isEmpty else { return [:] }
        let refused = try await self.putEachAsset(unseen)
        self.present.insert(unseen.map(\.digest).filter { refused[$0] == nil }, under: epochs, seen: now)
        return refused
    }

    /// Sends commands in one pipeline.
    func pipeline(
        _ commands: [RedisCommand], checkedBy checks: [RedisCommand] = [], _ operation: String
    ) async throws(StoreError) -> [RedisValue] {
        do {
            return try await self.redis.pipeline(commands, checkedBy: checks)
        } catch {
            throw StoreError(operation, error)
        }
    }
}

extension OrderStore.Write {
    /// Digests of the assets and the certificates that its package names, and references of documents; none if it has
    /// no package.
    public var assets: [String] {
        switch self.content {
        case .version(let package): package?.shared ?? []
        case .unpublishedVersion(let package), .signature(let package), .requested(let package, _): package.shared
        case .positions, .positionsToPublish, .unrecorded, .removal, .waiting: []
        }
    }

    /// The script's mode for the hash.
    var mode: String {
        switch self.content {
        case .version(nil): "unpackaged"
        case .version, .unpublishedVersion: "version"
        // They leave the rest of the hash, and the stamp, unchanged.
        case .positions, .positionsToPublish, .unrecorded, .signature, .requested: "positions"
        case .removal: "removal"
        // An entry is deleted in which nothing would be left.
        case .waiting(let changes): changes.isEmpty ? self.state == nil ? "nothing" : "positions" : "waiting"
        }
    }

    /// The fields to write, in one HSET.
    var fields: [(OrderField, RedisArgument)] {
        var fields = self.state.map(self.fields(of:)) ?? []
        if case .waiting(let changes) = self.content {
            fields.append((.waiting, .bytes(changes)))
        } else if !self.waiting.isEmpty {
            fields.append((.waiting, .bytes(self.waiting)))
        }
        return fields
    }

    private func fields(of state: OrderState) -> [(OrderField, RedisArgument)] {
        let version = RedisArgument.integer(state.version)
        let positions: [(OrderField, RedisArgument)] = [
            (.sources, .bytes(state.sourcesBytes)), (.recent, .bytes(state.recentBytes)),
        ]
        let awaited: (OrderField, RedisArgument) = (.record, .string(PublishedRecord.awaited))
        let untold: (OrderField, RedisArgument) = (.told, .string(state.untold))
        let warmth = self.coldContent.map { state.fields + ($0.isEmpty ? [] : [(.content, .string($0))]) }
        switch self.content {
        case .waiting: return positions
        // Its last record does not have them.
        case .positions: return (warmth ?? positions) + [(.record, "")] + (self.isToAnnounce ? [untold] : [])
        case .positionsToPublish: return (warmth ?? positions) + [untold, awaited]
        case .unrecorded: return (warmth ?? []) + [awaited]
        case .signature(let package): return (warmth ?? []) + package.fields
        case .requested(let package, let seconds):
            return (warmth ?? []) + package.fields + [(.requested, .integer(seconds))]
        case .removal: return state.fieldsAsRemoved
        case .version(let package): return state.fields + (package?.fields ?? []) + [awaited]
        case .unpublishedVersion(let package):
            return state.fields + package.fields + [(.unpublished, version), awaited]
        }
    }
}

extension OrderState {
    fileprivate static let untoldPrefix = "-"

    /// The field `told` of a state that has to be announced: a record without its positions does not announce it.
    fileprivate var untold: String {
        var hash = FNV1a()
        hash.combine(self.sourcesBytes)
        return Self.untoldPrefix + String(hash.value, radix: 16)
    }

    /// The fields to write, in one HSET.
    var fields: [(OrderField, RedisArgument)] {
        self.fieldsOfItself + (self.contributionsBytes.map { [(.contributions, .bytes($0))] } ?? [])
    }

    /// The fields of a removed order to write, in one HSET.
    var fieldsAsRemoved: [(OrderField, RedisArgument)] { self.fieldsOfItself + [(.removed, "1")] }

    /// The fields of a cold order to write, in one HSET.
    var coldFields: [(OrderField, RedisArgument)] {
        [
            (.token, .string(self.token.rawValue)), (.version, .integer(self.version)),
            (.modified, .integer(self.modifiedEpochSeconds)),
        ]
    }

    private var fieldsOfItself: [(OrderField, RedisArgument)] {
        [
            (.sources, .bytes(self.sourcesBytes)), (.recent, .bytes(self.recentBytes)),
            (.token, .string(self.token.rawValue)), (.version, .integer(self.version)),
            (.modified, .integer(self.modifiedEpochSeconds)), (.document, .bytes(self.documentBytes)),
        ]
    }
}

extension OrderStore.StoredPackage {
    /// Digests of the spans that it shares with other packages.
    var shared: [String] { self.assets + [self.certificates] }

    /// The fields to write.
    var fields: [(OrderField, RedisArgument)] {
        [
            (.etag, .string(self.entityTag)), (.head, .bytes(self.head)),
            (.assets, .string(self.shared.joined(separator: " "))), (.tail, .bytes(self.tail)),
            (.signer, .string(self.signer)), (.content, .string(self.content)),
        ]
    }
}

extension [RedisArgument] {
    /// Appends names and values.
    mutating func append(_ fields: [(OrderField, RedisArgument)]) {
        for (field, value) in fields {
            self.append(.string(field.rawValue))
            self.append(value)
        }
    }
}

extension OrderStore {
    /// Returns the versions of some orders in Redis, removals included.
    ///
    /// - Returns: one per key, in order; nil for an order that does not exist.
    /// - Throws: `StoreError`; `.corrupt` if one of the keys holds something else.
    public func versions(of keys: [OrderKey]) async throws(StoreError) -> [Int64?] {
        let what = "reading versions"
        let field = RedisArgument.string(OrderField.version.rawValue)
        let replies = try await self.pipeline(
            keys.map { RedisCommand("HGET", .string(StoreKeys.order($0)), field) }, what)
        for case .error(let message) in replies { throw StoreError(what, reply: message) }
        return replies.map(\.integer)
    }

    /// A version whose record was acknowledged.
    public struct Publication: Sendable {
        let state: OrderState
        /// Nil if its offset is not known.
        let record: PublishedRecord?
        /// False if devices may still have to be notified of something before it: the place alone is noted.
        let isAnnounced: Bool

        /// True if the order had to be announced again before it.
        let isRequested: Bool

        public init(
            _ state: OrderState, record: PublishedRecord?, isAnnounced: Bool = true, isRequested: Bool = false
        ) {
            self.state = state
            self.isRequested = isRequested
            self.record = record
            self.isAnnounced = isAnnounced
        }

        var arguments: [RedisArgument] {
            [
                .integer(self.state.version), .string(self.record?.text ?? PublishedRecord.awaited),
                .string(self.isAnnounced ? self.isRequested ? self.state.untold : "1" : ""),
            ]
        }
    }

    /// Notes that the records of versions were acknowledged, each if it is still the current version.
    ///
    /// - Returns: the current versions, as `versions(of:)` does.
    /// - Throws: as `versions(of:)` does.
    public func notePublished(_ orders: [Publication]) async throws(StoreError) -> [Int64?] {
        try await self.evaluate(
            orders.map {
                RedisInvocation(
                    StoreScripts.notePublished, keys: [StoreKeys.order($0.state.key)], arguments: $0.arguments)
            }, "noting versions that were published"
        ).map(\.integer)
    }
}

extension Duration {
    var wholeMilliseconds: Int64 { max(0, Int64(self / .milliseconds(1))) }
}
