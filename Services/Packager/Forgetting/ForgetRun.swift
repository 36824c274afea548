import FoundationEssentials
import Kafka
import Model
import Operations
import Store

/// Removes orders with all that Waybill can remove of them, and finds out what is left.
///
/// A removal is published as any other change, so that the packagers end state, package and registrations. May be
/// repeated at any point. Bounded: `chunk` orders at a time, each chunk for `patience`.
struct ForgetRun: Sendable {
    /// Orders that are removed together.
    static let chunk = 100
    /// The time between two looks at Redis.
    private static let step = Duration.milliseconds(250)

    let letters: DeadLettersCommand.Context
    let store: OrderStore
    let registrations: Registrations
    /// Nil for a dry run.
    let producer: KafkaProducer?
    let admin: KafkaAdmin
    /// Topics that sources read.
    var sourceTopics: [String] = []
    /// The name for the markers of dead letters.
    let by: String
    /// The time that the packagers have for a chunk.
    var patience: Duration = .seconds(60)
    /// Seconds since 1970.
    var now: @Sendable () -> Int64 = { Int64(Date().timeIntervalSince1970) }

    private var topics: Topics { self.letters.topics }

    /// - Parameter keys: each once.
    /// - Throws: `StoreError`, `KafkaError`; `ValidationError` for too many dead letters.
    func run(_ keys: [OrderKey]) async throws -> ForgetReport {
        var orders: [ForgottenOrder] = []
        let remains = OrderRemains(
            topics: self.topics, reader: self.letters.reader, store: self.store, registrations: self.registrations,
            producer: self.producer)
        for some in keys.chunks(of: Self.chunk) { orders += try await self.remove(some) }
        // After the removals, so that those are found that came in between.
        let ended = try await remains.end(of: Set(orders.filter { !$0.isLeft }.map(\.key)))
        for index in orders.indices {
            orders[index].add(ended[orders[index].key], isPlanned: self.producer == nil)
        }
        let ledger = try await self.letters.survey(DeadLetterFilter(orders: Set(keys.map(\.description))))
        let closed = try await self.letters.close(ledger, by: self.by, self.producer)
        for index in orders.indices { orders[index].deadLetters = closed[orders[index].key.description] ?? 0 }
        return ForgetReport(epochSeconds: self.now(), by: self.by, orders: orders, remains: await self.remains())
    }

    private func remove(_ keys: [OrderKey]) async throws -> [ForgottenOrder] {
        let found = try await self.traces(of: keys)
        guard let producer = self.producer else {
            return zip(keys, found).map { ForgottenOrder(key: $0, found: $1, outcome: Self.outcome($1, .planned)) }
        }
        let identifier = "forget-\(UUID().uuidString.lowercased())"
        // A removal of a damaged order would be one more dead letter.
        let sound = zip(keys, found).filter { !$1.isDamaged }
        let now = self.now()
        let removals = sound.map { OrderRemoval.message(of: $0.0, id: identifier, at: now, self.topics) }
        for outcome in await producer.produce(removals) { _ = try outcome.get() }
        let rest = try await self.wait(for: sound.filter(\.1.isKnown).map(\.0))
        return zip(keys, found).map { key, found in
            let outcome = rest[key].map { .left($0) } ?? Self.outcome(found, .removed)
            return ForgottenOrder(key: key, found: found, outcome: outcome)
        }
    }

    /// - Parameter outcome: the outcome for an order that has something to remove.
    private static func outcome(
        _ found: OrderTraces, _ outcome: ForgottenOrder.Outcome
    ) -> ForgottenOrder.Outcome {
        if case .damaged(let reason) = found.state { return .left(reason) }
        return found.isKnown ? outcome : .unknown
    }

    /// - Returns: the reasons why orders are not forgotten within the patience.
    private func wait(for keys: [OrderKey]) async throws -> [OrderKey: String] {
        let deadline = ContinuousClock.now + self.patience
        var open = keys
        while true {
            let rest = zip(open, try await self.traces(of: open)).compactMap { key, traces in
                traces.rest.map { (key, $0) }
            }
            open = rest.map(\.0)
            guard !open.isEmpty, ContinuousClock.now < deadline else {
                return Dictionary(rest) { first, _ in first }
            }
            try await Task.sleep(for: Self.step)
        }
    }

    private func traces(of keys: [OrderKey]) async throws -> [OrderTraces] {
        guard !keys.isEmpty else { return [] }
        var traces: [OrderTraces] = []
        for (key, result) in zip(keys, try await self.store.entries(keys)) {
            traces.append(try Self.traces(result, of: key))
        }
        var open: [(place: Int, cursor: String?)] = keys.indices.map { ($0, nil) }
        while !open.isEmpty {
            let pages = try await self.registrations.pages(of: open.map { (keys[$0.place], $0.cursor) })
            for ((place, _), page) in zip(open, pages) { traces[place].devices += page.devices.count }
            open = zip(open, pages).compactMap { entry, page in page.next.map { (entry.place, $0) } }
        }
        return traces
    }

    private static func traces(
        _ result: Result<OrderStore.Entry, StoreError>, of key: OrderKey
    ) throws -> OrderTraces {
        switch result {
        case .success(let entry):
            let state = entry.order.map { order in
                order.state.isRemoved ? OrderTraces.State.removed(isPublished: order.isPublished) : .stored
            }
            let early = IncompleteOrder(entry, of: key)?.changes.count ?? 0
            return OrderTraces(state: state ?? .none, earlyChanges: early)
        case .failure(let error):
            guard error.isOfOneOrder else { throw error }
            // A removal needs no document.
            if error.remains != nil || error.origin.isRetriable { return OrderTraces(state: .stored) }
            return OrderTraces(state: .damaged(error.message))
        }
    }

    /// Returns what is left, from the settings of the topics as they are now.
    private func remains() async -> [Remainder] {
        let places = Remainder.topics(self.topics, sources: self.sourceTopics)
        let names = places.map(\.name).filter { !Topics.isPattern($0) }
        var known: [String: Result<[String: String], KafkaError>] = [:]
        var failure = KafkaError(.unknownTopic, "a pattern names no topic")
        do throws(KafkaError) { known = try await self.admin.settings(of: names) } catch { failure = error }
        let now = self.now()
        return places.map { name, what in
            Remainder.topic(name, what, known[name] ?? .failure(failure), nowEpochSeconds: now)
        } + Remainder.others(nowEpochSeconds: now)
    }
}
