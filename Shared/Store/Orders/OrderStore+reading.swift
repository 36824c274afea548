public import Model
import Redis

extension OrderStore {
    /// The keys of Redis about an order beside its state.
    public struct Surroundings: Hashable, Sendable {
        /// True if the order has the bytes of a package.
        public let hasPackage: Bool
        /// The number of its package's assets that are not stored; its certificates count as one.
        public let missingAssets: Int
        /// The number of registered devices.
        public let devices: Int
        /// True if its removal is remembered.
        public let wasRemoved: Bool
    }

    /// Reads the surroundings of an order, also in a view that is incomplete.
    ///
    /// - Parameter assets: digests of assets and certificates, and references of the order's own documents.
    /// - Throws: `StoreError`; `.corrupt` if one of the keys holds something else.
    public func surroundings(of key: OrderKey, assets: [String]) async throws(StoreError) -> Surroundings {
        let what = "looking at order \(key)"
        let head = RedisArgument.string(OrderField.head.rawValue)
        let replies = try await self.pipeline(
            [
                RedisCommand("HEXISTS", .string(StoreKeys.order(key)), head),
                RedisCommand("HLEN", .string(StoreKeys.devices(key))),
                RedisCommand("EXISTS", .string(StoreKeys.gone(key))),
            ] + assets.map { RedisCommand(ofSpan: $0, of: key, ifShared: "EXISTS", else: "HEXISTS") }, what)
        for case .error(let message) in replies { throw StoreError(what, reply: message) }
        let numbers = replies.map { Int(clamping: $0.integer ?? 0) }
        guard numbers.count == 3 + assets.count else { throw StoreError(.unavailable, "\(what): replies are missing") }
        return Surroundings(
            hasPackage: numbers[0] == 1, missingAssets: numbers.dropFirst(3).count { $0 == 0 }, devices: numbers[1],
            wasRemoved: numbers[2] == 1)
    }
}

/// Reads orders with a bound on the memory in use at any time.
extension OrderStore {
    /// The entry of an order: the order, what is left of a removed one, and changes that wait until there is one.
    public struct Entry: Sendable {
        /// Nil for an order that never was.
        public let order: StoredOrder?
        /// Changes with each write; 0 if there is nothing.
        public let revision: Int64
        /// The waiting changes as their writer encoded them; empty for none. Those of an order that exists are
        /// applied, and their dead letters not closed yet.
        public let waiting: [UInt8]

        /// The bytes of it that depend on the order's size.
        public var bytes: Int { (self.order?.documentBytes ?? 0) + self.waiting.count }
    }

    /// Reads the entries of some orders.
    ///
    /// - Returns: as `orders` does.
    /// - Throws: as `orders` does.
    public func entries(_ keys: [OrderKey]) async throws(StoreError) -> [Result<Entry, StoreError>] {
        var entries: [Result<Entry, StoreError>] = []
        var large: [(item: Int, bytes: Int)] = []
        var cold: [(item: Int, bytes: Int)] = []
        for (index, sight) in try await self.look(at: keys).enumerated() {
            switch sight {
            case .read(let result):
                entries.append(result)
                if let record = sight.coldRecord { cold.append((index, record.bytes)) }
            case .large(let bytes):
                entries.append(.success(Entry(order: nil, revision: 0, waiting: [])))
                large.append((index, bytes))
            }
        }
        for page in Self.pages(large) + Self.pages(cold) {
            for (index, result) in zip(page, try await self.eachEntry(page.map { keys[$0] })) {
                entries[index] = result
            }
        }
        for case .failure(let error) in entries where !error.isOfOneOrder { throw error }
        return entries
    }

    /// The most bytes of a document that the first answer contains; of a larger one it contains the size alone.
    public static let smallDocument = 16 << 10
    /// Most bytes of larger documents that are read together. One alone may be larger.
    public static let pageBytes = 4 << 20

    /// The result of the first read of an order.
    public enum Sight: Sendable {
        case read(Result<Entry, StoreError>)
        /// Its document, or what waits for it, has this many bytes and was not read.
        case large(bytes: Int)

        /// The record of a cold order, which was not read: its result is a failure with code `.cold`.
        public var coldRecord: PublishedRecord? {
            if case .read(.failure(let error)) = self { error.record } else { nil }
        }
    }

    /// Reads some orders for the first time, in one pipeline: everything but large documents, and from Redis alone.
    ///
    /// - Parameter mark: set in the same pipeline; one that cannot be set is left out.
    /// - Returns: one sight per key, in order. For an order that cannot be read at the moment, for example because one
    ///   of several servers is down, it is a failure with code `.unavailable`.
    /// - Throws: the errors of `orders`.
    public func look(at keys: [OrderKey], marking mark: WorkMark? = nil) async throws(StoreError) -> [Sight] {
        try await self.read(keys, documentsUpTo: Self.smallDocument, marking: mark)
    }

    /// Reads some orders in full, regardless of their size.
    ///
    /// - Parameter keys: those of one of the `pages`, so that the bounds on memory and on the answers' deadline hold.
    /// - Returns: the same as `look`.
    public func eachEntry(_ keys: [OrderKey]) async throws(StoreError) -> [Result<Entry, StoreError>] {
        guard !keys.isEmpty else { return [] }
        return try await self.read(keys, documentsUpTo: Int.max).map { sight in
            guard case .read(let result) = sight else {
                return .failure(StoreError(.unavailable, "reading an order: its size was given for its document"))
            }
            return result
        }
    }

    /// Divides large orders into pages that are read one after another.
    public static func pages<Item>(_ large: [(item: Item, bytes: Int)]) -> [[Item]] {
        var pages: [[Item]] = []
        var room = 0
        for (item, bytes) in large {
            if pages.isEmpty || bytes > room {
                pages.append([])
                room = Self.pageBytes
            }
            pages[pages.count - 1].append(item)
            room -= bytes
        }
        return pages
    }

    private func read(
        _ keys: [OrderKey], documentsUpTo limit: Int, marking mark: WorkMark? = nil
    ) async throws(StoreError) -> [Sight] {
        // The epochs are read after the orders, on the same connections: if the view had been incomplete in between,
        // they would differ from those known before. An order whose command is redirected would be read after its epoch
        // and gets no answer: a node that lost keys it had just received would be taken for one without the order.
        let epochs = try await self.view?.known()
        let checks = self.view?.view.epochCommands ?? []
        let marks = mark.map { [$0.invocation] } ?? []
        let replies: [RedisValue]
        do {
            replies = try await self.redis.evaluate(
                keys.map {
                    RedisInvocation(
                        StoreScripts.readOrder, keys: [StoreKeys.order($0), StoreKeys.devices($0)],
                        arguments: [.integer(Int64(limit)), Self.fields])
                } + marks, checkedBy: checks)
        } catch {
            throw StoreError("reading orders", error)
        }
        if let epochs { try self.view?.check(replies.dropFirst(keys.count + marks.count), against: epochs) }
        var sights: [Sight] = []
        var cold: [(place: Int, order: ColdOrder)] = []
        for (key, reply) in zip(keys, replies) {
            if let order = Self.cold(key, reply) {
                if limit == Int.max { cold.append((sights.count, order)) }
                sights.append(.read(.failure(StoreError(cold: order))))
            } else {
                sights.append(Self.sight(key, reply))
            }
        }
        guard !cold.isEmpty else { return sights }
        for ((place, order), result) in zip(cold, await self.read(cold: cold.map(\.order))) {
            sights[place] = .read(result.map { Entry(order: $0, revision: order.revision, waiting: []) })
        }
        return sights
    }

    /// The fields of an order that are read.
    private static let fields = RedisArgument.encoded(
        RedisEncodedArguments(
            [
                OrderField.token, .version, .modified, .document, .sources, .recent, .etag, .assets, .revision, .signer,
                .content, .unpublished, .contributions, .told, .waiting, .requested, .record,
            ].map { .string($0.rawValue) }))

    private static func sight(_ key: OrderKey, _ reply: RedisValue) -> Sight {
        if case .error(let message) = reply {
            return .read(.failure(StoreError("reading order \(key)", reply: message)))
        }
        guard let values = reply.array, values.count == 18 else {
            return .read(.failure(StoreError(.corrupt, "reading order \(key): eighteen values were expected")))
        }
        if case .integer(let size) = values[3] { return .large(bytes: Int(clamping: size)) }
        return .read(
            Self.stored(key, values).map {
                Entry(order: $0, revision: values[8].integer ?? 0, waiting: values[14].bytes ?? [])
            })
    }

    /// Returns a cold order; nil for any other.
    private static func cold(_ key: OrderKey, _ reply: RedisValue) -> ColdOrder? {
        guard let values = reply.array, values.count == 18, values[3] == .null, let version = values[1].integer,
            let revision = values[8].integer, let record = values[16].text.flatMap({ PublishedRecord($0) })
        else { return nil }
        return ColdOrder(
            key: key, record: record, version: version, revision: revision, hasDevices: values[17].integer == 1,
            told: values[13].text ?? "", token: values[0].text.flatMap { try? AuthenticationToken($0) },
            modifiedEpochSeconds: values[2].integer)
    }

    private static func stored(_ key: OrderKey, _ values: [RedisValue]) -> Result<StoredOrder?, StoreError> {
        guard values[1] != .null else { return .success(nil) }
        guard let token = values[0].text, let version = values[1].integer, let modified = values[2].integer,
            let document = values[3].bytes, let sources = values[4].bytes, let recent = values[5].bytes,
            let revision = values[8].integer
        else {
            return .failure(damaged(key, values, "a field is missing"))
        }
        do {
            let state = try OrderState(
                key: key, document: document, token: token, version: version, modifiedEpochSeconds: modified,
                sources: sources, recent: recent, contributions: values[12].bytes)
            return .success(
                StoredOrder(
                    state: state, revision: revision, entityTag: values[6].text ?? "",
                    shared: digests(values[7].text ?? ""),
                    signer: values[9].text ?? "", content: values[10].text ?? "", unpublished: values[11].text ?? "",
                    publishedVersion: values[13].text ?? "",
                    record: values[16].text.flatMap { PublishedRecord($0) },
                    documentBytes: document.count + (values[12].bytes?.count ?? 0),
                    hasDevices: values[17].integer == 1, requestedEpochSeconds: values[15].integer ?? 0))
        } catch {
            return .failure(damaged(key, values, "\(error)"))
        }
    }

    /// Makes the error of a damaged order, with what is left of it without its document; nothing if its version or its
    /// token cannot be read either.
    private static func damaged(_ key: OrderKey, _ values: [RedisValue], _ reason: String) -> StoreError {
        let message = "reading order \(key): \(reason)"
        guard let token = values[0].text.flatMap({ try? AuthenticationToken($0) }), let version = values[1].integer,
            OrderState.versionRange.contains(version), let modified = values[2].integer,
            let revision = values[8].integer
        else { return StoreError(.corrupt, message) }
        let positions = values[4].bytes.flatMap { try? AppliedPositions(decoding: $0) }
        let recent = values[5].bytes.flatMap { try? RecentChanges(decoding: $0) }
        let state = OrderState(
            key: key, document: .empty, token: token, version: version, modifiedEpochSeconds: modified,
            positions: positions ?? AppliedPositions(), recent: recent ?? RecentChanges())
        var order = StoredOrder(state: state, revision: revision, entityTag: "", shared: [])
        order.unpublished = values[11].text ?? ""
        order.hasDevices = values[17].integer == 1
        return StoreError(.corrupt, message, remains: order, knowsChanges: positions != nil && recent != nil)
    }
}
