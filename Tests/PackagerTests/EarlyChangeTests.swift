import CoreMetrics
import Kafka
import Model
import Operations
import Redis
import Store
import TestKit
import TestTraits
import Testing

@testable import Packager

/// Updates of orders that do not exist yet.
@Suite(.server) struct EarlyChangeTests {
    private static func unknown(_ fixture: PackagerFixture, _ patience: Duration) -> UnknownOrders {
        UnknownOrders(patience: patience, gauge: PackagerMetrics(factory: fixture.metrics).unknownOrders)
    }

    private static func shipment(_ status: String) -> JSON {
        ["fulfillmentIdentifier": "f1", "fulfillmentType": "shipping", "status": .string(status)]
    }

    private static func status(_ state: OrderState?) -> JSON? {
        state?.document.members["fulfillments"]?.array?.first?.object?["status"]
    }

    @Test func earlyChangesWaitAndAreAppliedWithTheOrder() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            var processor = try fixture.processor()
            processor.unknown = Self.unknown(fixture, .seconds(60))
            let early = [
                log.change("fulfillment.updated", "o", Self.shipment("processing"), source: "/wms"),
                log.change("fulfillment.updated", "o", Self.shipment("shipped"), source: "/wms"),
            ]
            let other = log.change("order.replaced", "other", ChangeLog.document())
            let outcomes = await processor.process(KeyedWork.each(of: early + [other]))
            guard case .awaits(let time)? = outcomes.first else {
                Issue.record("\(outcomes)")
                return
            }
            #expect(time <= .seconds(60))
            #expect(time > .seconds(50))
            #expect(outcomes.last == .done, "others go on")
            #expect(try await fixture.state("other") != nil)
            #expect(try await fixture.count(fixture.topics.deadLetters) == 0)
            let order = log.change("order.replaced", "o", ChangeLog.document())
            try await processor.process(early + [order])
            #expect(Self.status(try await fixture.state("o")) == "shipped")
            #expect(try await fixture.state("o")?.version.ordinal == 1)
            #expect(try await fixture.count(fixture.topics.deadLetters) == 0)
        }
    }

    @Test func expiredEarlyChangesAreDeadLettersAppliedWithTheOrder() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            let processor = try fixture.processor()
            let first = log.change("fulfillment.updated", "o", Self.shipment("processing"), source: "/wms")
            let second = log.change("fulfillment.updated", "o", Self.shipment("shipped"), source: "/wms")
            try await processor.process([first])
            try await processor.process([second])
            // After a worker died before its commit, the next one does it again.
            try await fixture.processor().process([second])
            let letters = try await fixture.read(fixture.topics.deadLetters, 3)
            #expect(letters.allSatisfy { $0.header(RecordHeader.error.rawValue) == "unknown-order" })
            try await processor.process([log.change("order.replaced", "o", ChangeLog.document())])
            let state = try #require(try await fixture.state("o"))
            #expect(Self.status(state) == "shipped")
            #expect(state.version.ordinal == 1)
            #expect(fixture.counter("waybill_early_changes_applied_total") == 2)
            // The dead letters count as replayed.
            var ledger = DeadLetterIndex(DeadLetterFilter())
            for record in try await fixture.read(fixture.topics.deadLetters, 5) {
                ledger.add(DeadLetterRecord.read(record))
            }
            #expect(ledger.entries.count == 2)
            #expect(ledger.entries.allSatisfy { ledger.isReplayed($0) })
            // Applied only once: neither the change itself nor its kept copy has any further effect.
            let later = log.change("fulfillment.updated", "o", Self.shipment("delivered"), source: "/wms")
            try await processor.process([later])
            try await processor.process([first, second])
            #expect(Self.status(try await fixture.state("o")) == "delivered")
            #expect(try await fixture.count(fixture.topics.deadLetters) == 5)
            let store = OrderStore(redis: fixture.redis)
            #expect(try #require(try await store.entries([state.key]).first).get().waiting.isEmpty)
        }
    }

    @Test func earlyChangesAreAppliedOnce() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            let processor = try fixture.processor()
            let early = log.change("order.patched", "o", ["statusDescription": "early"], source: "/wms")
            try await processor.process([early])
            let order = log.change("order.replaced", "o", ChangeLog.document())
            try await processor.process([order])
            let state = try #require(try await fixture.state("o"))
            #expect(state.document.members["statusDescription"] == "early")
            try await processor.process([early, order])
            #expect(try await fixture.state("o")?.version.ordinal == 1)
        }
    }

    /// Two workers, one of which has lost the order's partition: the order exists by the time its write arrives.
    @Test func aChangeIsNotKeptForAnOrderThatAnotherWorkerCreatedMeanwhile() async throws {
        try await PackagerFixture.run { fixture in
            let key = try ChangeLog.key("o")
            var log = ChangeLog()
            let early = log.change("order.patched", "o", ["statusDescription": "early"], source: "/wms")
            try await fixture.processor().process([log.change("order.replaced", "o", ChangeLog.document())])
            let late = OrderStore.Write(
                waiting: IncompleteOrder.encode([early]), for: key, removed: nil, expectedRevision: 0)
            let store = OrderStore(redis: fixture.redis)
            #expect(try await store.write([late]) == [.conflict])
            try await fixture.processor().process([early])
            #expect(try await fixture.count(fixture.topics.deadLetters) == 0)
        }
    }

    @Test func anIncompleteOrderEndsWithARemovalAndExpires() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            let processor = try fixture.processor()
            let key = "waybill:1:order:{\(try ChangeLog.key("o"))}"
            func send(_ command: RedisArgument) async throws -> Int64? {
                try await fixture.redis.send(RedisCommand([command, .string(key)])).integer
            }
            try await processor.process([log.change("order.patched", "o", ["statusDescription": "1"], source: "/wms")])
            #expect(try #require(try await send("TTL")) > OrderStore.removedSeconds - 60)
            #expect(try await fixture.stored("o") == nil)
            try await processor.process([log.change("order.removed", "o", nil)])
            #expect(try await send("EXISTS") == 0)
            try await processor.process([log.change("order.patched", "o", ["statusDescription": "1"], source: "/wms")])
            try await processor.process([log.change("order.replaced", "o", ChangeLog.document())])
            #expect(try await send("TTL") == -1)
            #expect(try await fixture.state("o")?.document.members["statusDescription"] == "1")
        }
    }

    /// A marker closes a dead letter, so its change must not be lost after it.
    @Test func aDeadLetterStaysOpenUntilRedisHasTheOrder() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            let processor = try fixture.processor()
            let early = log.change("order.patched", "o", ["statusDescription": "early"], source: "/wms")
            try await processor.process([early])
            let key = RedisArgument.string("waybill:1:order:{\(try ChangeLog.key("o"))}")
            let waiting = try await fixture.redis.send(RedisCommand("HGET", key, "waiting"))
            _ = try await fixture.redis.send(RedisCommand("CONFIG", "SET", "maxmemory", "1"))
            let order = log.change("order.replaced", "o", ChangeLog.document())
            let works = KeyedWork.each(of: [order])
            #expect(await processor.process(works) != [.done])
            #expect(try await fixture.count(fixture.topics.deadLetters) == 1, "no marker")
            _ = try await fixture.redis.send(RedisCommand("CONFIG", "SET", "maxmemory", "0"))
            #expect(await processor.process(works) == [.done])
            #expect(try await fixture.count(fixture.topics.deadLetters) == 2)
            #expect(try await fixture.state("o")?.document.members["statusDescription"] == "early")
            #expect(try await fixture.redis.send(RedisCommand("HEXISTS", key, "waiting")).integer == 0)
            // As after a death between the write and the marker: the change comes again.
            _ = try await fixture.redis.send(RedisCommand("HSET", key, "waiting", .bytes(waiting.bytes ?? [])))
            #expect(await processor.process(works) == [.done])
            #expect(try await fixture.count(fixture.topics.deadLetters) == 3, "the marker again")
            #expect(try await fixture.redis.send(RedisCommand("HEXISTS", key, "waiting")).integer == 0)
            #expect(try await fixture.state("o")?.version.ordinal == 1)
        }
    }

    @Test func earlyChangesAreNotAppliedAfterARemoval() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            let processor = try fixture.processor()
            let early = log.change("order.patched", "o", ["statusDescription": "early"], source: "/wms")
            try await processor.process([early])
            try await processor.process([log.change("order.removed", "o", nil)])
            try await processor.process([log.change("order.replaced", "o", ChangeLog.document())])
            #expect(try await fixture.state("o")?.document.members["statusDescription"] == nil)
        }
    }

    @Test func changesOfARemovedOrderAreAppliedWhenItIsCreatedAgain() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            let processor = try fixture.processor()
            try await processor.process([log.change("order.replaced", "o", ChangeLog.document())])
            let removal = log.change("order.removed", "o", nil)
            try await processor.process([removal])
            let early = log.change("fulfillment.updated", "o", Self.shipment("shipped"), source: "/wms")
            try await processor.process([early])
            #expect(try await fixture.state("o")?.isRemoved == true)
            #expect(try await fixture.count(fixture.topics.deadLetters) == 1)
            // A removal that is delivered again is the one before the change.
            try await processor.process([removal])
            try await processor.process([log.change("order.replaced", "o", ChangeLog.document())])
            #expect(Self.status(try await fixture.state("o")) == "shipped")
            #expect(fixture.counter("waybill_early_changes_applied_total") == 1)
            #expect(try await fixture.count(fixture.topics.deadLetters) == 2, "the marker of the replayed one")
        }
    }

    @Test func changesBehindARemovalWaitForTheNextOrder() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            var processor = try fixture.processor()
            processor.unknown = Self.unknown(fixture, .seconds(60))
            try await processor.process([log.change("order.replaced", "o", ChangeLog.document())])
            let work = [
                log.change("order.removed", "o", nil),
                log.change("fulfillment.updated", "o", Self.shipment("shipped"), source: "/wms"),
            ]
            #expect(await processor.process([KeyedWork(key: work[0].key, records: work)]) == [.awaits(.zero)])
            #expect(try await fixture.state("o")?.isRemoved == true)
            let outcomes = await processor.process([KeyedWork(key: work[0].key, records: work)])
            guard case .awaits(let time)? = outcomes.first else {
                Issue.record("\(outcomes)")
                return
            }
            #expect(time > .seconds(50))
            #expect(try await fixture.count(fixture.topics.deadLetters) == 0)
            try await processor.process(work + [log.change("order.replaced", "o", ChangeLog.document())])
            #expect(Self.status(try await fixture.state("o")) == "shipped")
            #expect(try await fixture.count(fixture.topics.deadLetters) == 0)
        }
    }

    @Test func partsThatBecameDeadLettersCompleteAMergedOrder() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            let processor = try fixture.processor()
            try await processor.process([log.change("order.merged", "o", ["status": "completed"], source: "/status")])
            var head = try #require(ChangeLog.document().object)
            head["status"] = nil
            try await processor.process([log.change("order.merged", "o", .object(head))])
            let state = try #require(try await fixture.state("o"))
            #expect(state.document.members["status"] == "completed")
            #expect(state.contributions?.isEmpty == false)
        }
    }

    @Test func whatWaitsForAnOrderIsBounded() async throws {
        try await PackagerFixture.run { fixture in
            let processor = try fixture.processor()
            var log = ChangeLog()
            let large = log.change("order.patched", "o", ["note": .string(String(repeating: "x", count: 65_536))])
            let many = (0...IncompleteOrder.limit).map {
                log.change("order.patched", "o", ["orderNumber": .string("\($0)")])
            }
            try await processor.process([large] + many)
            // Each further one is a dead letter alone.
            let long = log.change("order.patched", "o", ["note": .string(String(repeating: "x", count: 30_000))])
            try await processor.process([long])
            #expect(try await fixture.count(fixture.topics.deadLetters) == Int64(many.count + 2))
            let key = try ChangeLog.key("o")
            let entry = try #require(try await OrderStore(redis: fixture.redis).entries([key]).first).get()
            #expect(IncompleteOrder.decode(entry.waiting, of: key).map(\.record) == Array(many.dropLast()))
        }
    }

    @Test func waitingChangesAreReadBackAsTheyWere() throws {
        let key = try ChangeLog.key("o")
        var log = ChangeLog(cluster: "east")
        let records = [
            log.change("order.patched", "o", ["orderNumber": "1"]), log.change("order.announced", "o", nil),
        ]
        #expect(IncompleteOrder.decode(IncompleteOrder.encode(records), of: key).map(\.record) == records)
        #expect(IncompleteOrder.encode([]).isEmpty)
        #expect(IncompleteOrder.decode(Array("[{}, 1]".utf8), of: key).isEmpty)
    }

    /// A large entry is read after the small ones.
    @Test func aLargeIncompleteOrderIsCreatedWithWhatWaits() async throws {
        try await PackagerFixture.run { fixture in
            let processor = try fixture.processor()
            var log = ChangeLog()
            let text = String(repeating: "x", count: 20_000)
            let early = log.change("fulfillment.updated", "o", Self.shipment("shipped"), source: "/wms")
            let wide = log.change("order.patched", "o", ["statusDescription": .string(text)], source: "/wms")
            try await processor.process([early, wide])
            try await processor.process([log.change("order.replaced", "o", ChangeLog.document(), source: "/oms")])
            #expect(Self.status(try await fixture.state("o")) == "shipped")
            #expect(try await fixture.state("o")?.document.members["statusDescription"] == .string(text))
        }
    }

    @Test func anUnknownOrderDoesNotWaitWithoutRoom() {
        let gauge = PackagerMetrics(factory: NOOPMetricsHandler.instance).unknownOrders
        let now = ContinuousClock.now
        let unknown = UnknownOrders(patience: .seconds(60), gauge: gauge)
        func key(_ number: Int) -> [UInt8] { Array("\(number)".utf8) }
        for number in 0..<UnknownOrders.keyLimit {
            #expect(unknown.wait(key(number), bytes: 10, now: now) == .seconds(60))
        }
        #expect(unknown.wait(key(-1), bytes: 10, now: now) == nil)
        #expect(unknown.wait(key(7), bytes: 20, now: now + .seconds(40)) == .seconds(20), "one that waits goes on")
        #expect(unknown.wait(key(7), bytes: 20, now: now + .seconds(60)) == nil)
        unknown.forget([key(1), key(2)])
        #expect(unknown.wait(key(-1), bytes: UnknownOrders.byteLimit, now: now) == nil)
        #expect(unknown.wait(key(-1), bytes: 10, now: now) == .seconds(60))
        // Those that never return because their partitions were revoked do not take room forever.
        #expect(unknown.wait(key(-2), bytes: 10, now: now + .seconds(200)) == .seconds(60))
        #expect(UnknownOrders(patience: .zero, gauge: gauge).wait(key(1), bytes: 1, now: now) == nil)
    }

    @Test(.timeLimit(.minutes(3))) func waitingEarlyChangesAreUncommittedAndSurviveARestart() async throws {
        try await Fleet.run(partitions: 1) { fleet in
            let update: (type: String, order: String, id: String, data: JSON?) = (
                "order.patched", "late", "1", ["statusDescription": "early"]
            )
            func lag() async throws -> Int64 {
                try await fleet.admin.lag(group: Packager.group, topic: fleet.topics.orderChanges).values.reduce(0, +)
            }
            try await fleet.working([try fleet.member()]) {
                try await fleet.publish([update, ("order.replaced", "a", "2", ChangeLog.document())])
                try await eventually("the other order") {
                    try await OrderStore(redis: fleet.redis).orders([try ChangeLog.key("a")])[0].get() != nil
                }
            }
            #expect(try await lag() == 2, "nothing is committed behind what waits")
            let next = try fleet.member()
            try await fleet.working([next]) {
                try await eventually("it waits") { next.metrics.gauge("waybill_unknown_orders_waiting") == 1 }
                try await fleet.publish([
                    ("order.merged", "late", "3", ChangeLog.document())
                ])
                try await fleet.settle()
            }
            let state = try await OrderStore(redis: fleet.redis).orders([try ChangeLog.key("late")])[0].get()?.state
            #expect(state?.document.members["status"] == "open")
            #expect(try await fleet.admin.endOffsets(fleet.topics.deadLetters).values.reduce(0, +) == 0)
        }
    }
}
