import Kafka
import Model
import Operations

/// Reads the dead letters of notifications.
///
/// Bounded: `limit` devices.
struct PushDeadLetterSurvey: Sendable {
    /// Most devices that are remembered, at some hundred bytes each.
    static let limit = 1_000_000

    /// The code of the dead letters to read; nil: any that begins with `push-`.
    let code: String?
    /// The earliest time of the dead letters to read, in milliseconds since 1970; nil: any.
    let since: Int64?

    fileprivate struct DeviceOfType: Hashable {
        let device: DeviceIdentifier
        let type: OrderTypeIdentifier
    }

    /// The result of a survey.
    struct Found: Sendable {
        var deadLetterCount = 0
        /// One order of each device and order type: the notification is the same for all its orders.
        var devices: [PendingPushKey] = []
        fileprivate var known: Set<DeviceOfType> = []
        var isOverfull = false
    }

    /// - Throws: `KafkaError`; `.unknownTopic` if there is no such topic.
    func read(_ kafka: KafkaConfiguration, topic: String) async throws -> Found {
        let reader = try KafkaReader(kafka)
        return try await withCleanup(reader.close) { try await self.read(reader, topic: topic) }
    }

    private func read(_ reader: KafkaReader, topic: String) async throws -> Found {
        var found = Found()
        for bounds in try await reader.bounds(of: topic) {
            try await reader.read(
                topic, partition: bounds.partition, from: bounds.first, to: bounds.end, records: 1000, bytes: 1 << 20
            ) { records in
                for record in records { self.add(record, into: &found) }
            }
        }
        return found
    }

    func add(_ record: KafkaRecord, into found: inout Found) {
        if let since, record.timestampMilliseconds < since { return }
        // The last one: a refused change may have come with one of its own.
        guard let code = record.headers.text(.error), PushDeadLetterCode.isOne(code),
            self.code == nil || self.code == code,
            let key = String(validating: record.key ?? [], as: UTF8.self), let order = try? OrderKey(key),
            let json = try? JSON(parsing: record.value ?? []).object
        else { return }
        let device = json["device"]?.string.flatMap { try? DeviceIdentifier($0) }
        // Without a device all those of the order were not notified.
        guard device != nil || json["device"] == nil else { return }
        found.deadLetterCount += 1
        guard found.devices.count < Self.limit else {
            found.isOverfull = true
            return
        }
        guard let device else { return found.devices.append(PendingPushKey(order: order)) }
        guard found.known.insert(DeviceOfType(device: device, type: order.orderType)).inserted else { return }
        found.devices.append(PendingPushKey(order: order, device: device))
    }
}

/// Writes devices to the pending topic.
struct PendingPushWriter: Sendable {
    let producer: KafkaProducer
    let topic: String
    /// Devices per second.
    let rate: Int
    let nowEpochMilliseconds: Int64

    /// - Returns: the number of devices written.
    /// - Throws: the `KafkaError` of the first device that was not written.
    func write(_ devices: [PendingPushKey]) async throws -> Int {
        let start = ContinuousClock.now
        let step = max(1, min(1000, self.rate / 4))
        for first in stride(from: 0, to: devices.count, by: step) {
            let end = min(first + step, devices.count)
            let messages = devices[first..<end].map { key in
                ParkedPush(key: key, receipts: [], epochMilliseconds: self.nowEpochMilliseconds)
                    .message(self.topic, nowEpochMilliseconds: self.nowEpochMilliseconds)
            }
            for outcome in await self.producer.produce(messages) { _ = try outcome.get() }
            if end < devices.count { try await Task.sleep(until: start + .seconds(end) / self.rate) }
        }
        return devices.count
    }
}
