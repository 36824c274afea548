import Kafka
import Model
import NIOPosix
import Redis
import Store
import TestKit

/// Waits until the system is idle after the last fault, and compares everything with the plan.
struct ChaosCheck: Sendable {
    let run: ChaosRun
    /// The offsets at which the dead letters of this run begin.
    let letters: [Int32: Int64]
    /// The number of packages that the `openssl` program verifies.
    let samples: Int
    /// The records of `waybill.orders` of all clusters so far.
    var ledger = VersionLedger()

    private var tally: ChaosTally { self.run.tally }

    mutating func run() async {
        await self.awaitLag(group: "waybill-packager", topics: [Topics().orderChanges])
        await self.awaitLag(group: "waybill-pusher", topics: [Topics().orders, Topics().registrations])
        await self.awaitQuiet()
        await self.forgotten()
        let served = await self.packages()
        await self.pushes(served)
        await self.lists(served)
        await self.takeVersions()
        do {
            try await self.versions()
        } catch {
            self.tally.differ("comparing Redis with waybill.orders: \(error)")
        }
    }

    /// Reads `waybill.orders` of the cluster in use into the ledger. No service may write to that cluster any more.
    mutating func takeVersions() async {
        do {
            try await self.followVersions()
            try await self.nothingFellOut()
        } catch {
            self.tally.differ("reading waybill.orders: \(error)")
        }
    }

    private func awaitLag(group: String, topics: [String]) async {
        let end = ContinuousClock.now + self.run.patience
        for topic in topics {
            var last = "nothing could be asked"
            while true {
                do {
                    let lag = try await self.run.admin.lag(group: group, topic: topic).filter { $0.value > 0 }
                    if lag.isEmpty { break }
                    let places = lag.sorted { $0.key < $1.key }.prefix(8).map { "\($0.key): \($0.value)" }
                    last = "\(lag.values.reduce(0, +)) records behind, partition \(places.joined(separator: ", "))"
                } catch {
                    last = "\(error)"
                }
                guard .now < end else {
                    self.tally.differ("\(group) on \(topic) does not come to rest: \(last)")
                    break
                }
                try? await Task.sleep(for: .milliseconds(250))
            }
        }
    }

    /// Waits until no push has arrived for a while and no device is busy.
    private func awaitQuiet() async {
        let end = ContinuousClock.now + .seconds(60)
        while .now < end {
            var busy = 0
            for device in self.run.devices where await device.isBusy { busy += 1 }
            if busy == 0, self.run.journal.quietFor > .seconds(3) { return }
            try? await Task.sleep(for: .milliseconds(200))
        }
    }

    /// Compares each package with the expected document and verifies it, some by `openssl`; also checks dead letters.
    /// - Returns: the served orders, by order identifier.
    private func packages() async -> [String: JSON] {
        let orders = self.run.plan.orders
        var random = SeededGenerator(seed: self.run.seed ^ 0x5A4D_91E5)
        var check = ReplayCheck(
            stack: self.run.stack, http: self.run.http, tokens: self.run.tokens, orders: orders,
            samples: Set(orders.indices.shuffled(using: &random).prefix(self.samples)), followed: Set(orders.indices))
        check.verifier = self.run.verifier
        check.mayRepeatLetters = true
        let gone = self.run.forgetting.gone
        check.gone = Set(orders.indices.filter { gone.contains(orders[$0].identifier) })
        var report = ReplayReport()
        let served = await check.packages(&report)
        self.tally.count("checked.packages", by: orders.count)
        do {
            try await check.deadLetters(self.run.publisher.broken, since: self.letters, &report)
        } catch {
            self.tally.differ("reading the dead letters: \(error)")
        }
        self.tally.count("checked.dead_letters", by: report.deadLetters)
        for difference in report.differences { self.tally.differ(difference) }
        return [String: JSON](
            served.map { (orders[$0.key].identifier, $0.value) }, uniquingKeysWith: { first, _ in first })
    }

    /// Forgets the forgotten orders once more, which ends what came in between, and searches for what is left of them.
    private func forgotten() async {
        let gone = self.run.forgetting.gone
        let orders = self.run.plan.orders.indices.filter { gone.contains(self.run.plan.orders[$0].identifier) }
        for order in orders { await self.run.leave(order) }
        guard !orders.isEmpty else { return }
        do {
            let search = try await ForgottenSearch(self.run, orders)
            self.tally.count("forgotten.left_before", by: try await search.found().count)
            await self.run.forgetting.end(orders, of: self.run)
            for place in try await search.found() { self.tally.differ("left of a forgotten order: \(place)") }
            self.tally.count("checked.forgotten", by: orders.count)
        } catch {
            self.tally.differ("searching for forgotten orders: \(error)")
        }
    }

    /// Checks that devices that do not poll have the served version, so that no push was lost.
    private func pushes(_ served: [String: JSON]) async {
        for device in self.run.devices where !device.isPolling {
            for order in await device.registered {
                let found = await device.wallet.order(order)
                guard found != served[order] else { continue }
                self.tally.count("lost_push")
                self.tally.differ(
                    "device of order \(order) was not told of the last version: it has \(Self.words(found)), served "
                        + "is \(Self.words(served[order])); it \(await Self.isListed(order, device))")
            }
        }
    }

    private static func words(_ order: JSON?) -> String {
        guard let members = order?.object else { return "none" }
        return "\(members["updatedAt"]?.string ?? "?") with \(members["statusDescription"]?.string ?? "no note")"
    }

    /// Reports whether the order is in a list without a tag, which distinguishes a lost registration from a lost push.
    private static func isListed(_ order: String, _ device: ChaosDevice) async -> String {
        do {
            return try await device.wallet.listedOrders().contains(order)
                ? "is registered" : "is not registered any more"
        } catch {
            return "cannot list: \(error)"
        }
    }

    /// Checks that a device that lists with its tag and fetches the listed orders has every served version, and that a
    /// list without a tag has all orders that it registered for.
    private func lists(_ served: [String: JSON]) async {
        for device in self.run.devices {
            await device.patiently("list", "any") { _ = try await device.wallet.react() }
            let registered = await device.registered
            self.tally.count("checked.registrations", by: registered.count)
            for order in registered {
                let found = await device.wallet.order(order)
                guard found != served[order] else { continue }
                self.tally.count("forgotten_change")
                self.tally.differ(
                    "device of order \(order): the list with its tag left the order out: it has \(Self.words(found)), "
                        + "served is \(Self.words(served[order]))")
            }
            do {
                let listed = Set(try await device.wallet.listedOrders())
                for order in registered where !listed.contains(order) {
                    self.tally.count("lost_registration")
                    self.tally.differ("device of order \(order): its registration is gone")
                }
            } catch {
                self.tally.differ("device \(registered.first ?? "without orders"): listing: \(error)")
            }
        }
        self.tally.count("checked.devices", by: self.run.devices.count)
    }

    /// Checks that the last record of each order on `waybill.orders` equals the state in Redis.
    private func versions() async throws {
        for fault in self.ledger.faults { self.tally.differ(fault) }
        self.tally.count("versions.told", by: self.ledger.records)
        self.tally.count("versions.bytes_each", by: self.ledger.bytes / max(1, self.ledger.records))
        self.tally.count("versions.told_again", by: self.ledger.repeated)
        self.tally.count("versions.told_late", by: self.ledger.late)
        await self.deliveries()
        guard let url = self.run.stack.redis else { return }
        let redis = RedisClient(try RedisConfiguration(url: url), eventLoopGroup: MultiThreadedEventLoopGroup.singleton)
        let orders = self.run.plan.orders
        for start in stride(from: 0, to: orders.count, by: 500) {
            let keys = try orders[start..<min(orders.count, start + 500)].map {
                OrderKey(orderType: self.run.stack.orderType, order: try OrderIdentifier($0.identifier))
            }
            let stored = try await self.run.withColdOrders(redis) { try await $0.orders(keys) }
            for (key, result) in zip(keys, stored) {
                let found = VersionLedger.difference(self.ledger.entries["\(key)"], stored: try? result.get()?.state)
                if let found { self.tally.differ("order \(key): \(found)") }
                if case .failure(let error) = result { self.tally.differ("order \(key): \(error)") }
            }
        }
        await redis.close()
    }

    /// Checks that each device, polling or not, got a notification after the last version of each of its orders was
    /// published.
    ///
    /// Notifications that the simulator accepted just before it was killed may not have been read; they are excused
    /// and counted.
    private func deliveries() async {
        let missingUntil = self.run.journal.missingUntilEpochMilliseconds
        for device in self.run.devices {
            let last = self.run.journal.lastDelivery(to: device.wallet.pushToken) ?? 0
            for order in await device.registered {
                let entry = self.ledger.entries["\(self.run.stack.orderType)/\(order)"]
                guard let published = entry?.publishedEpochMilliseconds else { continue }
                self.tally.count("checked.deliveries")
                guard last < published else { continue }
                if published <= missingUntil {
                    self.tally.count("excused.deliveries")
                } else {
                    self.tally.count("lost_push")
                    self.tally.differ(
                        "device of order \(order) got no notification after its last version, published at "
                            + "\(published): its last one came at \(last); it \(await Self.isListed(order, device))")
                }
            }
        }
    }

    /// Reads `waybill.orders` from its beginning to its end.
    private mutating func followVersions() async throws {
        let topic = Topics().orders
        let beginnings = try await self.run.admin.beginningOffsets(topic)
        // The log cleaner of a real broker leaves gaps, but keeps the last record of each partition.
        var left = try await self.run.admin.endOffsets(topic).filter { $0.value > beginnings[$0.key] ?? 0 }
        let consumer = try KafkaConsumer(
            self.run.stack.kafkaConfiguration(), group: "waybill-chaos-\(randomHex(bytes: 6))",
            topics: [topic])
        let end = ContinuousClock.now + .seconds(120)
        while !left.isEmpty, .now < end {
            for record in try await consumer.nextBatch(records: 1000, bytes: 64 << 20, wait: .milliseconds(500)) {
                self.ledger.take(record)
                if let limit = left[record.partition], record.offset + 1 >= limit { left[record.partition] = nil }
            }
        }
        await consumer.close()
        guard left.isEmpty else {
            throw ToolError(.timeout, "reading \(topic): the ends of partitions \(left.keys.sorted()) are missing")
        }
    }

    /// Checks that librdkafka's own broker still has all published records; otherwise there is nothing to compare with.
    private func nothingFellOut() async throws {
        guard self.run.isEmbedded else { return }
        for topic in [Topics().orderChanges, Topics().orders, Topics().registrations] {
            let gone = try await self.run.admin.beginningOffsets(topic).values.reduce(0, +)
            guard gone > 0 else { continue }
            self.tally.differ("the broker dropped the first \(gone) records of \(topic): lower the rate or the time")
        }
    }
}
