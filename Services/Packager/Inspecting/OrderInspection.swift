import Brands
import Kafka
import Model
import Operations
import Packaging
import Redis
import Store
import Tokens

/// Finds out everything about one order. Changes no order; a part that cannot be read hides no other.
///
/// Bounded: of each topic by the ends that it has at the beginning, with one batch of each partition in memory.
struct OrderInspection: Sendable {
    /// The offsets that are read first from the end of the key's partition: orders that changed lately are there.
    private static let firstRange: Int64 = 1000
    private static let largestRange: Int64 = 1 << 20
    /// The most changes that wait, and their bytes, of which it is found out what they lack.
    private static let lackRecords = 256
    private static let lackBytes = 4 << 20

    let redis: RedisClient
    /// Without the view: also what an incomplete one has is shown.
    let store: OrderStore
    let reader: KafkaReader
    let admin: KafkaAdmin
    let topics: Topics
    /// The packagers' consumer group.
    let group: String
    let settings: PackagerSettings
    /// Called with each step, for people.
    let report: @Sendable (_ line: String, _ isLast: Bool) -> Void

    func look(at key: OrderKey, nowMilliseconds: Int64) async -> OrderFacts {
        // An order's record follows its write to Redis, so a record that is read first is not newer than Redis.
        var orders = KeyedPartition(topic: self.topics.orders, key)
        var record = await Self.attempt { try await self.lastRecord(&orders) }
        let (redis, entry) = await self.lookAtRedis(key, nowMilliseconds)
        if case .success(let facts) = redis, let order = facts.order, case .success(let last) = record,
            !(last?.has(order) ?? false)
        {
            record = await Self.attempt { try await self.readOn(&orders, to: order) ?? last }
        }
        let letters = await Self.attempt { try await self.letters(key) }
        var records: [KafkaRecord] = []
        let positions = entry?.order?.state.positions ?? AppliedPositions()
        let waiting = await Self.attempt { try await self.waiting(key, positions, &records) }
        self.report("read", true)
        return OrderFacts(
            key: key, nowMilliseconds: nowMilliseconds, brand: self.brand(key.orderType), redis: redis, record: record,
            letters: letters, waiting: waiting, partitions: orders.count,
            lacks: self.lacks(key, entry, records, nowMilliseconds / 1000))
    }

    /// Returns the reasons why the changes that wait make no order, as a packager finds them.
    ///
    /// - Parameter entry: nil if Redis could not be read.
    private func lacks(
        _ key: OrderKey, _ entry: OrderStore.Entry?, _ records: [KafkaRecord], _ nowEpochSeconds: Int64
    ) -> [String] {
        guard let entry, let brand = self.settings.brands.brands[key.orderType] else { return [] }
        let changes = records.compactMap { record -> BatchOrder.Change? in
            let change = try? OrderChange.decode(
                key: record.key, value: record.value, headers: record.headers.map { ($0.name, $0.value) })
            return change.map { (record, $0) }
        }
        let order = BatchOrder(place: 0, key: key, changes: changes).following(entry)
        return OrderPackager(brand, tokens: self.settings.tokens)
            .lacks(order, stored: entry.order, nowEpochSeconds: nowEpochSeconds)
    }

    private static func attempt<Value>(_ body: () async throws -> Value) async -> Result<Value, Unread> {
        do { return .success(try await body()) } catch { return .failure(Unread(description: "\(error)")) }
    }

    private func brand(_ type: OrderTypeIdentifier) -> BrandFact {
        let failure = self.settings.brands.failures.first { $0.orderType == type || $0.folder == type.rawValue }
        if let failure { return .failing("\(failure.error)") }
        return self.settings.brands.brands[type].map { .loaded($0.certificates) } ?? .unknown
    }
}

/// The partition of a topic that has the records of a key.
private struct KeyedPartition {
    let topic: String
    let bytes: [UInt8]
    private(set) var partition: Int32 = 0
    /// The partitions of the topic; nil until they are known.
    private(set) var count: Int?
    /// The offset up to which it was read.
    var end: Int64 = 0

    init(topic: String, _ key: OrderKey) {
        self.topic = topic
        self.bytes = Array(key.description.utf8)
    }

    /// - Returns: the present bounds of the partition.
    mutating func bounds(_ reader: KafkaReader) async throws -> OffsetRange {
        let all = try await reader.bounds(of: self.topic)
        self.count = all.count
        self.partition = KafkaPartitioner.partition(of: self.bytes, count: all.count)
        return all.first { [partition] in $0.partition == partition }
            ?? OffsetRange(partition: self.partition, first: 0, end: 0)
    }
}

/// Reading Kafka.
extension OrderInspection {
    /// Returns the last record of the key, searching backwards in ranges that grow.
    private func lastRecord(_ orders: inout KeyedPartition) async throws -> RecordFact? {
        let bounds = try await orders.bounds(self.reader)
        orders.end = bounds.end
        var (end, size) = (bounds.end, Self.firstRange)
        while end > bounds.first {
            let start = max(bounds.first, end - size)
            if let found = try await self.last(orders, from: start, to: end) { return found }
            (end, size) = (start, min(size * 8, Self.largestRange))
            let percent = (bounds.end - end) * 100 / (bounds.end - bounds.first)
            self.report("\(orders.topic)/\(orders.partition): \(percent)%", false)
        }
        return nil
    }

    /// Returns the record of the version that Redis had, or else the last of the key, of those that came since; nil if
    /// none did. Redis was read before, so a version after that one says nothing about it.
    private func readOn(_ orders: inout KeyedPartition, to order: StoredFacts) async throws -> RecordFact? {
        let start = orders.end
        orders.end = try await orders.bounds(self.reader).end
        return try await self.last(orders, from: start, to: orders.end) { $0.has(order) }
    }

    /// - Parameter isWanted: returns true for a record that no later one replaces.
    private func last(
        _ orders: KeyedPartition, from start: Int64, to end: Int64, isWanted: (RecordFact) -> Bool = { _ in false }
    ) async throws -> RecordFact? {
        var last: RecordFact?
        try await self.reader.read(
            orders.topic, partition: orders.partition, from: start, to: end, records: 1000, bytes: 4 << 20
        ) { records in
            for record in records where record.key == orders.bytes && !(last.map(isWanted) ?? false) {
                last = RecordFact(record)
            }
        }
        return last
    }

    private func letters(_ key: OrderKey) async throws -> [LetterFact] {
        self.report("\(self.topics.deadLetters)", false)
        let topic = DeadLetterTopic(reader: self.reader, topic: self.topics.deadLetters)
        let index = try await topic.survey(DeadLetterFilter(orders: [key.description]))
        guard !index.isOverfull else {
            throw Unread(description: "there are more than \(DeadLetterIndex.limit)")
        }
        return index.open.sorted { ($0.milliseconds, $0.position) < ($1.milliseconds, $1.position) }.map {
            LetterFact(position: $0.position, milliseconds: $0.milliseconds, code: index.codes[$0.code])
        }
    }

    /// - Parameters:
    ///   - positions: the changes that were applied.
    ///   - kept: gets the first records that wait.
    private func waiting(
        _ key: OrderKey, _ positions: AppliedPositions, _ kept: inout [KafkaRecord]
    ) async throws -> [WaitingFact] {
        var waiting: [WaitingFact] = []
        var bytes = 0
        for topic in self.topics.orderChangeSources where !Topics.isPattern(topic) {
            var place = KeyedPartition(topic: topic, key)
            let bounds = try await place.bounds(self.reader)
            let committed = try await self.admin.committed(group: self.group, topic: topic)[place.partition]
            var (first, count): (KafkaRecord?, Int) = (nil, 0)
            try await self.reader.read(
                topic, partition: place.partition, from: max(bounds.first, committed ?? 0), to: bounds.end,
                records: 1000, bytes: 4 << 20
            ) { records in
                for record in records where record.key == place.bytes {
                    let position = ChangePosition(record)
                    let seen = positions.position(inPartition: position.partition, of: position.origin)
                    guard position.offset > seen?.offset ?? -1 else { continue }
                    (first, count) = (first ?? record, count + 1)
                    bytes += record.size
                    if kept.count < Self.lackRecords, bytes <= Self.lackBytes { kept.append(record) }
                }
                let offset = records.last?.offset ?? bounds.end
                self.report("\(topic)/\(place.partition): offset \(offset) of \(bounds.end)", false)
            }
            guard let first else { continue }
            waiting.append(
                WaitingFact(
                    topic: topic, partition: first.partition, offset: first.offset,
                    milliseconds: first.timestampMilliseconds, changes: count))
        }
        return waiting
    }
}

extension RecordFact {
    init(_ record: KafkaRecord) {
        do {
            self.content =
                switch try OrderStore.Restored(record) {
                case .version(let state, _, _, _): .version(state.version)
                case .removed(let state): .removed(state.version)
                case .forgotten: .removed(nil)
                }
        } catch {
            self.content = .unreadable("\(error)")
        }
        self.partition = record.partition
        self.offset = record.offset
        self.milliseconds = record.timestampMilliseconds
    }

    /// True if the record is of the version that Redis has.
    fileprivate func has(_ order: StoredFacts) -> Bool {
        self.content == (order.isRemoved ? .removed(order.version) : .version(order.version))
    }
}

/// Reading Redis.
extension OrderInspection {
    /// - Returns: the facts, and the order's entry as it was read.
    private func lookAtRedis(
        _ key: OrderKey, _ nowMilliseconds: Int64
    ) async -> (Result<RedisFacts, Unread>, OrderStore.Entry?) {
        var read: OrderStore.Entry?
        let facts = await Self.attempt {
            let places = try await MaterializedView(redis: self.redis).look()
            var facts = RedisFacts()
            facts.isComplete = places.allSatisfy { $0.epoch != nil && $0.isHere }
            facts.partitions = try await PartitionCounts(redis: self.redis).all()[self.topics.orders]
            do {
                let entry = try await self.store.entries([key]).first?.get()
                read = entry
                let stored = entry?.order
                let around = try await self.store.surroundings(of: key, assets: stored.map(\.shared) ?? [])
                (facts.devices, facts.wasRemoved) = (around.devices, around.wasRemoved)
                facts.early = entry.flatMap { IncompleteOrder($0, of: key) }?.changes.count ?? 0
                guard let stored else { return facts }
                facts.order = try await self.facts(stored, around, nowMilliseconds / 1000)
            } catch let error as StoreError where error.isOfOneOrder && error.code != .unread {
                facts.corruption = error.message
            }
            return facts
        }
        return (facts, read)
    }

    private func facts(
        _ stored: OrderStore.StoredOrder, _ around: OrderStore.Surroundings, _ nowEpochSeconds: Int64
    ) async throws -> StoredFacts {
        let state = stored.state
        var facts = StoredFacts(version: state.version)
        facts.modifiedEpochSeconds = state.modifiedEpochSeconds
        facts.isRemoved = state.isRemoved
        facts.isPublished = stored.isPublished
        facts.isCold = stored.isCold
        facts.sequences = SequenceFact.all(state.positions)
        guard !state.isRemoved else { return facts }
        facts.hasPackage = around.hasPackage && stored.isPackaged
        facts.isUnpackaged = !around.hasPackage && !stored.isPackaged
        (facts.assets, facts.missingAssets) = (stored.assets.count, around.missingAssets)
        facts.sources = state.contributions?.summaries ?? []
        let brand = self.settings.brands.brands[state.key.orderType]
        facts.token = TokenOrigin(
            state, self.settings.tokens.secrets(for: state.key.orderType), isOfBrand: brand?.tokenSecrets != nil)
        guard let brand else { return facts }
        let packager = OrderPackager(brand, tokens: self.settings.tokens)
        let shown: OrderPackager.Shown
        (facts.pictures, facts.documents, shown) = try await self.pictures(of: state, packager, nowEpochSeconds)
        (facts.hiddenElements, facts.omittedFiles) = packager.hidden(
            state, pictures: shown, nowEpochSeconds: nowEpochSeconds)
        let order = state.orderJSON(rules: brand.rules)
        facts.guidelines = OrderGuideline.findings(in: order)
        guard !facts.isUnpackaged else { return facts }
        facts.isSigned = stored.signer == brand.signer
        let content = PackageBuilder(brand).contentDigest(of: order, pictures: shown)
        facts.isCurrent = stored.content == content
        return facts
    }

    private func pictures(
        of state: OrderState, _ packager: OrderPackager, _ nowEpochSeconds: Int64
    ) async throws -> (pictures: PictureFacts, documents: PictureFacts, OrderPackager.Shown) {
        let keys = Array(Set(packager.pictures(of: state).map(\.key)))
        var found = PictureIndex.Found()
        var facts = (pictures: PictureFacts(), documents: PictureFacts())
        for areDocuments in [false, true] {
            let store = Pictures(redis: self.redis, areDocuments: areDocuments)
            let some = keys.filter { ($0.order != nil) == areDocuments }
            let records = zip(some, try await store.records(some))
            var sums = PictureFacts()
            for ((key, record), isPending) in zip(records, try await store.waits(state.key, for: some)) {
                found.add(record, for: key, nowEpochSeconds: nowEpochSeconds)
                sums.add(isMissing: !found.has(key), isPending: isPending, failure: record?.failure)
            }
            if areDocuments { facts.documents = sums } else { facts.pictures = sums }
        }
        return (facts.pictures, facts.documents, found.shown(to: state.key))
    }
}

extension SequenceFact {
    fileprivate static func all(_ positions: AppliedPositions) -> [SequenceFact] {
        (positions.json.object?["sequences"]?.array ?? []).compactMap { pair in
            guard let pair = pair.array, pair.count == 2, let source = pair[0].string, let number = pair[1].string
            else { return nil }
            return SequenceFact(source: source, number: number)
        }
    }
}

extension TokenOrigin {
    init(_ state: OrderState, _ secrets: TokenSecrets, isOfBrand: Bool) {
        let token = state.token.rawValue
        if let place = secrets.place(ofToken: token, of: state.key) {
            self = .minted(place: place, of: secrets.count, isOfBrand: isOfBrand)
        } else if token.utf8.count == secrets.token(for: state.key).rawValue.utf8.count,
            token.allSatisfy({ $0.isHexDigit && !$0.isUppercase }),
            !(state.contributions?.summaries.contains(where: \.hasToken) ?? false)
        {
            self = .unknown
        } else {
            self = .brought
        }
    }
}
