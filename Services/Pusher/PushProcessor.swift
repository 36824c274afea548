import APNS
import CoreMetrics
import Foundation
import Kafka
import Logging
import Model
import Operations
import ServiceLifecycle
import Store

/// Does what a batch of records asks for, up to the last verdict.
struct PushProcessor: Sendable {
    /// How often a notification is tried that APNs does not take now.
    private static let attemptLimit = 6
    /// How long APNs keeps a notification for a device that is off, in seconds.
    ///
    /// Source: Wallet Orders §4.1: a future time, up to 7 d
    private static let expirationSeconds: Int64 = 7 * 24 * 3600
    /// How often a registration is published that keeps changing while it is taken off.
    private static let endLimit = 5
    /// Most notifications that are sent in one go.
    private static let chunk = 1000

    let topics: Topics
    /// The way to APNs for each brand, the same for all of a batch.
    var clients: [OrderTypeIdentifier: APNSClient]
    let registrations: Registrations
    /// Sees to it that nobody counts as unregistered who only is not there yet; nil believes what is there.
    var view: ViewWatch?
    let producer: KafkaProducer
    let metrics: PusherMetrics
    let logger: Logger
    /// What was done of the batch in hand, so that trying it again tells nobody twice.
    private let progress = PushProgress()
    /// Milliseconds since 1970.
    var now: @Sendable () -> Int64 = { Int64(Date().timeIntervalSince1970 * 1000) }
    var random: @Sendable (ClosedRange<Double>) -> Double = { Double.random(in: $0) }

    /// A batch that is not done; trying again is safe at any point.
    struct NotDone: Error, CustomStringConvertible {
        let description: String
    }

    /// - Throws: `StoreError`, `KafkaError`, `NotDone`, `CancellationError` on graceful shutdown; then nothing of the
    ///   batch may be committed.
    func process(_ records: [KafkaRecord]) async throws {
        self.progress.begin(records)
        for key in self.progress.ends {
            try await self.publishEnd(of: key, standing: try await self.standing(key))
        }
        let batch = PushBatch(records, topics: self.topics)
        let epochs = try await self.view?.known()
        let fanOut = try await self.lookUp(batch)
        if let epochs { try await self.view?.confirm(epochs) }
        var away: NotDone?
        for (type, targets) in Dictionary(grouping: fanOut.targets, by: \.orderType) {
            guard let client = self.clients[type] else {
                self.giveUp(targets.count, of: type, "no brand is loaded for this order type")
                continue
            }
            // One brand's APNs being away does not keep the others waiting.
            do {
                try await self.send(targets.filter { !self.progress.isDone($0) }, of: fanOut, to: type, client)
            } catch let error as NotDone {
                away = error
            }
        }
        if let away { throw away }
        self.progress.end()
        self.account(for: records, batch, fanOut)
    }

    private func account(for records: [KafkaRecord], _ batch: PushBatch, _ fanOut: FanOut) {
        for (origin, reason) in batch.unreadable {
            self.logger.error("unreadable record", metadata: ["origin": "\(origin)", "reason": "\(reason)"])
        }
        self.metrics.recordsUnreadable.increment(by: batch.unreadable.count)
        for (target, registrations) in fanOut.registrations where self.clients[target.orderType] != nil {
            self.metrics[target.orderType.rawValue].count(.coalesced, by: registrations.count - 1)
        }
        self.metrics.recordsConsumed.increment(by: records.count)
        let now = self.now()
        // A record's moment is its producer's word: without one, or before 1970, it says nothing.
        for record in records where record.topic == self.topics.orders && record.timestampMilliseconds >= 0 {
            let key = String(decoding: record.key ?? [], as: UTF8.self)
            guard let type = (try? OrderKey(key))?.orderType, self.clients[type] != nil else { continue }
            self.metrics[type.rawValue].age(milliseconds: now - record.timestampMilliseconds)
        }
    }

    private func lookUp(_ batch: PushBatch) async throws -> FanOut {
        var fanOut = FanOut()
        for (order, devices) in zip(batch.changed, try await self.registrations.devices(of: batch.changed)) {
            for registered in devices {
                fanOut.add(RegistrationKey(device: registered.device, order: order), registered.registration)
            }
        }
        let late = Array(batch.registered)
        let modified = try await self.registrations.modified(late.map(\.key.order))
        for ((key, record), modified) in zip(late, modified) where PushBatch.isSoon(record, after: modified) {
            fanOut.add(key, record)
        }
        return fanOut
    }

    /// Sends until each target has its verdict, or APNs turns out to be away.
    private func send(
        _ targets: [FanOut.Target], of fanOut: FanOut, to type: OrderTypeIdentifier, _ client: APNSClient
    ) async throws {
        for start in stride(from: 0, to: targets.count, by: Self.chunk) {
            let end = min(start + Self.chunk, targets.count)
            var round = PushRound(Array(targets[start..<end]))
            while !round.open.isEmpty {
                try await self.attempt(&round, of: fanOut, to: type, client)
                if let reason = round.stopReason {
                    self.giveUp(targets.count - end + round.open.count, of: type, reason)
                    return
                }
                guard !round.open.isEmpty else { break }
                // Uncommitted work is repeated by whoever comes next, so a shutdown need not wait for APNs.
                let delay = backoff(attempt: round.attempts, random: self.random)
                try await cancelWhenGracefulShutdown { try await Task.sleep(for: delay) }
            }
        }
    }

    /// Sends what is open once.
    private func attempt(
        _ round: inout PushRound, of fanOut: FanOut, to type: OrderTypeIdentifier, _ client: APNSClient
    ) async throws {
        let expiration = self.now() / 1000 + Self.expirationSeconds
        let metrics = self.metrics[type.rawValue]
        let outcomes = await client.send(
            round.open.map {
                PushNotification(deviceToken: $0.pushToken, topic: $0.orderType, expirationEpochSeconds: expiration)
            })
        for outcome in outcomes { metrics.answered(outcome, elapsed: nil) }
        let steps = round.take(outcomes, isLast: round.attempts + 1 >= Self.attemptLimit)
        for (reason, count) in round.dropped { self.giveUp(count, of: type, reason) }
        for (target, step) in steps {
            switch step {
            case .delivered:
                metrics.count(.delivered)
                self.progress.finish(target)
            case .retire(let registeredBefore):
                try await self.retire(fanOut.registrations[target] ?? [], before: registeredBefore)
                self.progress.finish(target)
            case .dropped: self.progress.finish(target)
            case .again: metrics.count(.retried)
            case .away: break
            }
        }
        if let reason = round.awayReason { throw NotDone(description: "sending to APNs: \(reason)") }
    }

    private func giveUp(_ count: Int, of type: OrderTypeIdentifier, _ reason: String) {
        guard count > 0 else { return }
        let metrics = self.clients[type] == nil ? self.metrics.strangers : self.metrics[type.rawValue]
        metrics.count(.dropped, by: count)
        self.logger.error(
            "notifications given up", metadata: ["type": "\(type)", "count": "\(count)", "reason": "\(reason)"])
    }

    /// Takes registrations off whose push token is gone, unless they were renewed after APNs noticed.
    private func retire(
        _ registrations: [(key: RegistrationKey, record: RegistrationRecord)], before milliseconds: Int64
    ) async throws {
        for (key, record) in registrations where record.registeredEpochMilliseconds < milliseconds {
            guard try await self.standing(key) == record else { continue }
            // The tombstone first: as long as Kafka does not have it, Redis has what leads here again, so no death in
            // between brings the token back when Redis is restored.
            _ = try await self.producer.produce(
                KafkaMessage(topic: self.topics.registrations, key: Array(key.text.utf8), value: nil))
            self.progress.beginEnd(of: key)
            if try await self.registrations.retire(key, record) { self.metrics[key.order.orderType.rawValue].retired() }
            try await self.publishEnd(of: key, standing: try await self.standing(key))
        }
    }

    /// Publishes what stands in Redis of a registration whose tombstone was published.
    ///
    /// The device may register again at any moment, and our tombstone may come behind that record: a restored view
    /// would not have it. So what stands in Redis is published, until it still stands when the broker has it.
    ///
    /// - Parameter standing: what was seen in Redis last; nil is what Kafka has.
    private func publishEnd(of key: RegistrationKey, standing: RegistrationRecord?) async throws {
        var standing = standing
        var known: RegistrationRecord?
        for _ in 0..<Self.endLimit {
            // A device that keeps changing its mind is not waited for: it publishes each change itself.
            if standing == known { break }
            _ = try await self.producer.produce(
                KafkaMessage(
                    topic: self.topics.registrations, key: Array(key.text.utf8), value: standing?.encoded))
            known = standing
            standing = try await self.standing(key)
        }
        self.progress.finishEnd(of: key)
    }

    /// The registration that stands in a complete view.
    private func standing(_ key: RegistrationKey) async throws -> RegistrationRecord? {
        let epochs = try await self.view?.known()
        let standing = try await self.registrations.registration(key)
        // Published as ended, a registration that was only not restored yet would be lost for good.
        if let epochs { try await self.view?.confirm(epochs) }
        return standing
    }
}
