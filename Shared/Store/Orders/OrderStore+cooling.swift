public import Model
import Redis

/// Cooling: Redis keeps the place of an order's last record in place of its document.
extension OrderStore {
    public enum CoolingOutcome: Hashable, Sendable {
        case cooled
        /// It was written meanwhile, or is not one that can be cooled.
        case changed
        /// The place of its last record is not known, or another process is about to publish it.
        case unplaced
        /// Its place has no record of it, or one that differs from what Redis has.
        case differs
        /// Kafka did not answer for this partition.
        case unread(partition: Int32)
    }

    /// Cools orders, each if the record at its place is there and has all that Redis has. Nothing is forgotten of
    /// which there is no other copy.
    ///
    /// - Parameters:
    ///   - keys: at most hundreds; their documents are in memory in pages.
    ///   - silent: partitions that are not read.
    /// - Returns: one outcome for each, in order.
    /// - Throws: `StoreError` with code `.unavailable` or `.incomplete`.
    public func cool(_ keys: [OrderKey], except silent: Set<Int32> = []) async throws(StoreError) -> [CoolingOutcome] {
        var outcomes = [CoolingOutcome](repeating: .changed, count: keys.count)
        var found: [(place: Int, entry: Result<Entry, StoreError>)] = []
        var large: [(item: Int, bytes: Int)] = []
        for (place, sight) in try await self.look(at: keys).enumerated() {
            if case .read(let result) = sight {
                found.append((place, result))
            } else if case .large(let bytes) = sight {
                large.append((place, bytes))
            }
        }
        try await self.cool(found, silent, &outcomes)
        for page in Self.pages(large) {
            let entries = try await self.eachEntry(page.map { keys[$0] })
            try await self.cool(zip(page, entries).map { (place: $0, entry: $1) }, silent, &outcomes)
        }
        return outcomes
    }

    private func cool(
        _ found: [(place: Int, entry: Result<Entry, StoreError>)], _ silent: Set<Int32>,
        _ outcomes: inout [CoolingOutcome]
    ) async throws(StoreError) {
        var open: [(place: Int, order: StoredOrder, record: PublishedRecord)] = []
        for case (let place, .success(let entry)) in found {
            guard let order = entry.order, !order.state.isRemoved, !order.isCold, entry.waiting.isEmpty else {
                continue
            }
            guard let record = order.record, order.unpublished.isEmpty else {
                outcomes[place] = .unplaced
                continue
            }
            if silent.contains(record.partition) {
                outcomes[place] = .unread(partition: record.partition)
            } else {
                open.append((place, order, record))
            }
        }
        guard let records = self.records, !open.isEmpty else { return }
        var verified: [(place: Int, order: StoredOrder, record: PublishedRecord)] = []
        for (item, result) in zip(open, await records(open.map { ($0.order.state.key, $0.record) })) {
            switch result {
            case .success(let found?) where item.order.state.isKept(by: found):
                verified.append(item)
            case .success, .failure(is RecordError): outcomes[item.place] = .differs
            case .failure: outcomes[item.place] = .unread(partition: item.record.partition)
            }
        }
        guard !verified.isEmpty else { return }
        // An entry of an earlier release cannot be read without the document, which stays if a full Redis takes no new
        // entry.
        let refusals = try await self.parcels.note(verified.map(\.order.state))
        verified = zip(verified, refusals).filter { $1 == nil }.map(\.0)
        let replies: [RedisValue]
        do {
            replies = try await self.redis.evaluate(
                verified.map {
                    RedisInvocation(
                        StoreScripts.cool, keys: [StoreKeys.order($0.order.state.key)],
                        arguments: [.integer($0.order.revision), .string($0.record.text)])
                })
        } catch {
            throw StoreError("cooling orders", error)
        }
        for (item, reply) in zip(verified, replies) where reply == .integer(1) { outcomes[item.place] = .cooled }
    }
}

extension OrderState {
    /// Returns true if a record has all that Redis forgets of a cold order. The modification second stays there.
    fileprivate func isKept(by record: OrderRecord) -> Bool {
        var kept = record.state(key: self.key)
        kept.modifiedEpochSeconds = self.modifiedEpochSeconds
        return kept == self
    }
}

extension StoreScripts {
    /// Cools an order: of the hash stays what answers "not modified" and lists it, and the place of its last record.
    ///
    /// The revision is a new one: a writer that read the order before may write a part of it, and relies on the rest.
    /// KEYS: the order. ARGV: the revision and the place that were verified. Returns 1 if so, 0 if it was written
    /// since.
    static let cool = RedisScript(
        Self.revised + """
            local values = redis.call('HMGET', KEYS[1], 'revision', 'record', 'unpublished', 'token', 'modified',
              'version', 'stamp', 'told')
            if values[1] ~= ARGV[1] or values[2] ~= ARGV[2] or values[3] then return 0 end
            if not (values[4] and values[5] and values[6] and values[7]) then return 0 end
            redis.call('DEL', KEYS[1])
            redis.call('HSET', KEYS[1], 'token', values[4], 'modified', values[5], 'version', values[6],
              'stamp', values[7], 'revision', revised(values[1]), 'told', values[8] or '', 'record', values[2])
            return 1
            """)
}
