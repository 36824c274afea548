import CoreMetrics
import APNS
import Foundation
import Kafka
import Logging
import Model
import Operations
import Store

/// Does what a batch of records asks for, up to the last verdict.
struct PushProcessor: Sendable {
    /// How often a notification is tried that APNs does not take now.
    private static let attemptLimit = 6
    /// How long APNs keeps a notification for a device that is off, in seconds. Source: Wallet Orders §4.1: a future
    /// time, up to 7 d
    private static let expirationSeconds: Int64 = 7 * 24 * 3600
    /// Most notifications that are sent in one go.
    private static let chunk = 1000

    let topics: Topics
    let clients: [OrderTypeIdentifier: APNSClient]
    let registrations: Registrations
    let producer: KafkaProducer
    let metrics: PusherMetrics
    let logger: Logger
    /// Milliseconds since 1970.
    var now: @Sendable () -> Int64 = { Int64(Date().timeIntervalSince1970 * 1000) }
    var random: @Sendable (ClosedRange<Double>) -> Double = { Double.random(in: $0) }

    /// - Throws: `StoreError`, `KafkaError`; then nothing of the batch may be committed. Some devices are then told
    ///   twice, which is harmless.
    func process(_ records: [KafkaRecord]) async throws {
        let batch = PushBatch(records, topics: self.topics)
        for (origin, reason) in batch.unreadable {
            self.logger.error("unreadable record", metadata: ["origin": "\(origin)", "reason": "\(reason)"])
        }
        self.metrics.recordsUnreadable.increment(by: batch.unreadable.count)
        let fanOut = try await self.lookUp(batch)
        for (type, targets) in Dictionary(grouping: fanOut.targets, by: \.orderType) {
            guard let client = self.clients[type] else {
                self.logger.error("no brand for an order type", metadata: ["type": "\(type)"])
                continue
            }
            for start in stride(from: 0, to: targets.count, by: Self.chunk) {
                let part = Array(targets[start..<min(start + Self.chunk, targets.count)])
                try await self.send(part, of: fanOut, through: client)
            }
        }
        self.metrics.merged.increment(by: fanOut.mergedCount)
        self.metrics.recordsConsumed.increment(by: records.count)
        let now = self.now()
        for record in records where record.topic == self.topics.orders {
            self.metrics.age.recordMilliseconds(max(0, now - record.timestampMilliseconds))
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
        let earliest = self.now() / 1000 - PushBatch.registrationWindowSeconds
        for ((key, record), modified) in zip(late, modified) where (modified ?? 0) >= earliest {
            fanOut.add(key, record)
        }
        return fanOut
    }

    /// Sends until each target has its verdict.
    private func send(_ targets: [FanOut.Target], of fanOut: FanOut, through client: APNSClient) async throws {
        var open = targets
        var attempt = 0
        while !open.isEmpty {
            attempt += 1
            let expiration = self.now() / 1000 + Self.expirationSeconds
            let outcomes = await client.send(
                open.map {
                    PushNotification(
                        deviceToken: $0.pushToken, topic: $0.orderType, expirationEpochSeconds: expiration)
                })
            var again: [FanOut.Target] = []
            for (target, outcome) in zip(open, outcomes) {
                switch verdict(of: outcome) {
                case .delivered: self.metrics.delivered.increment()
                case .retire(let registeredBefore?):
                    try await self.retire(fanOut.registrations[target] ?? [], before: registeredBefore)
                // APNs does not know the token, but does not say that it is gone: it may be us who ask the wrong APNs,
                // and then every device would be wiped.
                case .retire(nil): self.give(up: "the push token is not known to APNs")
                case .retry(let reason):
                    guard attempt < Self.attemptLimit else {
                        self.give(up: reason)
                        continue
                    }
                    self.metrics.retried.increment()
                    again.append(target)
                case .stopCredential(let reason), .drop(let reason): self.give(up: reason)
                }
            }
            open = again
            guard !open.isEmpty else { return }
            // Uncommitted work is repeated by whoever comes next, so cancellation may end the wait.
            try await Task.sleep(for: backoff(attempt: attempt, random: self.random))
        }
    }

    private func give(up reason: String) {
        self.metrics.dropped.increment()
        self.logger.error("notification given up", metadata: ["reason": "\(reason)"])
    }

    /// Takes registrations off whose push token is gone, unless they were renewed after APNs noticed.
    private func retire(
        _ registrations: [(key: RegistrationKey, record: RegistrationRecord)], before milliseconds: Int64
    ) async throws {
        for (key, record) in registrations {
            if record.registeredEpochMilliseconds >= milliseconds { continue }
            guard try await self.registrations.retire(key, record) else { continue }
            _ = try await self.producer.produce(
                KafkaMessage(topic: self.topics.registrations, key: Array(key.text.utf8), value: nil))
            self.metrics.retired.increment()
        }
    }
}
