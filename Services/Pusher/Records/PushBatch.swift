import FoundationEssentials
import Kafka
package import Model
import Operations
import Store

/// The content of the records of a batch, before devices are looked up.
struct PushBatch {
    /// The time after a change within which a new registration still causes a push: a device that registers just after
    /// a change must not miss it. Source: Design §5
    static let registrationWindowSeconds: Int64 = 15 * 60

    /// Returns true if a registration was made so soon after its order's last change that the device must be notified.
    ///
    /// Measured from the registration, not from the present time: however late the record is read, no device is missed.
    /// - Parameter modified: the modification time of the order, UNIX seconds; nil if it is unknown, or removed.
    static func isSoon(_ registration: RegistrationRecord, after modified: Int64?) -> Bool {
        guard let modified else { return false }
        return modified >= registration.registeredEpochMilliseconds / 1000 - Self.registrationWindowSeconds
    }

    /// Orders that have a new version, each once, with their records as indices of the batch.
    private(set) var changed: [(order: OrderKey, records: [Int])] = []
    /// New registrations, the last of each device and order, and its record.
    private(set) var registered: [RegistrationKey: (registration: RegistrationRecord, record: Int)] = [:]
    /// Parked devices with their records, and for those that wait because they registered, the time of the
    /// registration.
    private(set) var awaited: [(key: RegistrationKey, registeredEpochMilliseconds: Int64?, records: [Int])] = []
    /// The number of records that are too old for a notification.
    private(set) var staleCount = 0
    /// Records that could not be parsed: topic/partition/offset and the reason.
    private(set) var unreadable: [(origin: String, reason: String)] = []
    /// For every record: its receipt, and the time when its change was published, in milliseconds since 1970; -1: not
    /// known, or not a change.
    let records: [(receipt: KafkaReceipt, epochMilliseconds: Int64)]
    /// The traces of the records that have some, the newest first.
    private(set) var traces: [Int: [TraceContext]] = [:]

    /// - Parameter staleBefore: milliseconds since 1970; earlier changes cause no notification.
    init(_ records: [KafkaRecord], topics: Topics, staleBefore: Int64 = .min) {
        self.records = records.map { record in
            // A record's timestamp is set by its producer: if missing, or before 1970, it is meaningless.
            (record.receipt, record.topic == topics.orders ? max(-1, record.timestampMilliseconds) : -1)
        }
        var places: [OrderKey: Int] = [:]
        for (index, record) in records.enumerated() {
            RecordTrap.decoding(record)
            if record.timestampMilliseconds >= 0, record.timestampMilliseconds < staleBefore, record.value != nil {
                self.staleCount += 1
                continue
            }
            if record.headers.contains(where: { $0.name == RecordHeader.silent.rawValue }) { continue }
            let traces = record.traces
            if !traces.isEmpty { self.traces[index] = traces }
            do {
                // A record without a key, or with one that is not text, names nothing.
                let key = String(validating: record.key ?? [], as: UTF8.self) ?? ""
                if record.topic == topics.registrations {
                    let registration = try RegistrationKey(key)
                    self.registered[registration] = try record.value.map {
                        bytes throws in (try RegistrationRecord.decode(bytes), index)
                    }
                } else {
                    let order = try OrderKey(key)
                    if record.value == nil {
                        // A removed order has no devices to notify.
                        if let place = places[order] { self.changed[place].records = [] }
                    } else if let place = places[order] {
                        self.changed[place].records.append(index)
                    } else {
                        places[order] = self.changed.count
                        self.changed.append((order, [index]))
                    }
                }
            } catch {
                self.unreadable.append((record.receipt.origin, "\(error)"))
            }
        }
        self.changed.removeAll { $0.records.isEmpty }
    }

    /// A batch of parked keys that are now due for lookup.
    init(_ parked: [ParkedPush]) {
        var records: [(receipt: KafkaReceipt, epochMilliseconds: Int64)] = []
        for push in parked {
            let numbers = Array(records.count..<records.count + push.receipts.count)
            records += push.receipts.map { ($0, push.epochMilliseconds) }
            if let last = numbers.last, !push.traces.isEmpty { self.traces[last] = push.traces }
            if let device = push.key.device {
                let key = RegistrationKey(device: device, order: push.key.order)
                self.awaited.append((key, push.registeredEpochMilliseconds, numbers))
            } else {
                self.changed.append((push.key.order, numbers))
            }
        }
        self.records = records
    }

    /// True if no lookup is needed.
    var isEmpty: Bool { self.changed.isEmpty && self.registered.isEmpty && self.awaited.isEmpty }

    /// Removes the entries that must not be looked up yet.
    ///
    /// - Returns: the removed entries, and their records as indices of the batch.
    mutating func setAside(_ isParked: (PendingPushKey) -> Bool) -> [(push: ParkedPush, records: [Int])] {
        var aside: [(push: ParkedPush, records: [Int])] = []
        let all = (self.records, self.traces)
        self.changed.removeAll { order, records in
            let key = PendingPushKey(order: order)
            guard isParked(key) else { return false }
            aside.append((Self.parked(all, key, records), records))
            return true
        }
        for (registration, value) in self.registered {
            let key = PendingPushKey(registration)
            guard isParked(key) else { continue }
            self.registered[registration] = nil
            aside.append(
                (Self.parked(all, key, [value.record], value.registration.registeredEpochMilliseconds), [value.record]))
        }
        self.awaited.removeAll { registration, registered, records in
            let key = PendingPushKey(registration)
            guard isParked(key) else { return false }
            aside.append((Self.parked(all, key, records, registered), records))
            return true
        }
        return aside
    }

    private static func parked(
        _ all: ([(receipt: KafkaReceipt, epochMilliseconds: Int64)], traces: [Int: [TraceContext]]),
        _ key: PendingPushKey, _ records: [Int], _ registered: Int64? = nil
    ) -> ParkedPush {
        ParkedPush(
            key: key, receipts: records.map { all.0[$0].receipt },
            epochMilliseconds: records.reduce(-1) { max($0, all.0[$1].epochMilliseconds) },
            registeredEpochMilliseconds: registered,
            traces: all.traces.isEmpty
                ? [] : TraceContext.links(records.flatMap { all.traces[$0]?.reversed() ?? [] }))
    }
}

/// Records of one key that wait before their devices are looked up.
struct ParkedPush: Hashable, Sendable {
    var key: PendingPushKey
    var receipts: [KafkaReceipt]
    /// The time when the newest of the changes was published, milliseconds since 1970; -1: not known.
    var epochMilliseconds: Int64
    /// The time of a device's registration, milliseconds since 1970. The device is notified only if its order changed
    /// shortly before. nil: it is notified in any case.
    var registeredEpochMilliseconds: Int64?
    /// The traces of the changes, the newest first.
    var traces: [TraceContext] = []

    /// Merges another entry of the same key.
    mutating func merge(_ other: ParkedPush) {
        self.receipts += other.receipts
        self.traces = TraceContext.links((other.traces + self.traces).reversed())
        self.epochMilliseconds = max(self.epochMilliseconds, other.epochMilliseconds)
        if let registered = self.registeredEpochMilliseconds {
            self.registeredEpochMilliseconds = other.registeredEpochMilliseconds.map { max($0, registered) }
        }
    }
}

/// Finds the devices that must be notified of a batch.
package struct PushLookup: Sendable {
    /// A device to notify.
    package struct Found: Sendable {
        let orderType: OrderTypeIdentifier
        let order: OrderIdentifier
        let device: DeviceIdentifier
        let registration: RegistrationRecord
        /// The records that concern it, as indices of the batch.
        let records: [Int]

        package init(
            orderType: OrderTypeIdentifier, order: OrderIdentifier, device: DeviceIdentifier,
            registration: RegistrationRecord, records: [Int]
        ) {
            self.orderType = orderType
            self.order = order
            self.device = device
            self.registration = registration
            self.records = records
        }
    }

    let registrations: Registrations
    /// Prevents an entry that is not restored yet from counting as unregistered; nil trusts the present entries.
    let view: MaterializedView?
    /// Milliseconds since 1970.
    var now: @Sendable () -> Int64 = { Int64(Date().timeIntervalSince1970 * 1000) }
    /// The age from which a registration that Redis does not have is not looked up again: far more than a gateway takes
    /// to write it after its record, and than clocks differ.
    private static let settlingMilliseconds: Int64 = 60_000

    /// The result of a lookup.
    struct Outcome: Sendable {
        var found: [Found] = []
        /// Devices to notify only because they registered soon after a change.
        var registered: [Found] = []
        /// The number of devices that are not notified, since their orders have more devices than are notified of one
        /// change.
        var skipped = 0
        /// The errors of orders that cause no notifications: Redis has an invalid value for them, and a retry does not
        /// help.
        var damaged: [StoreError] = []
        /// Keys whose own lookup failed.
        var failed: Set<PendingPushKey> = []
        /// The error of one of them.
        var failure: StoreError?
        /// Registrations that Redis does not have yet: a change that arrived meanwhile did not find them, and their
        /// lookup did not find the change. They are looked up once more.
        var unsettled: Set<PendingPushKey> = []
    }

    /// - Throws: `StoreError`; then no device was looked up.
    func find(_ batch: PushBatch) async throws(StoreError) -> Outcome {
        var outcome = Outcome()
        if batch.isEmpty { return outcome }
        let late = Array(batch.registered)
        let lookup = try await self.registrations.look(
            up: batch.changed.map(\.order),
            modified: late.map(\.key.order) + batch.awaited.map(\.key.order),
            registrations: late.map(\.key) + batch.awaited.map(\.key), in: self.view)
        for (changed, audience) in zip(batch.changed, lookup.audiences) {
            guard let audience = outcome.unwrap(audience, of: PendingPushKey(order: changed.order)) else { continue }
            outcome.skipped += audience.skipped
            for one in audience.devices {
                outcome.found.append(
                    Found(
                        orderType: changed.order.orderType, order: changed.order.order, device: one.device,
                        registration: one.registration, records: changed.records))
            }
        }
        for ((key, new), (modified, current)) in zip(late, zip(lookup.modified, lookup.registrations)) {
            guard let modified = outcome.unwrap(modified, of: PendingPushKey(key)) else { continue }
            guard PushBatch.isSoon(new.registration, after: modified) else {
                if case .success(let current) = current, self.isUnsettled(new.registration, current) {
                    outcome.unsettled.insert(PendingPushKey(key))
                }
                continue
            }
            outcome.registered.append(
                Found(
                    orderType: key.order.orderType, order: key.order.order, device: key.device,
                    registration: new.registration, records: [new.record]))
        }
        // Devices that are parked individually, with their current push tokens.
        let pairs = zip(lookup.registrations.dropFirst(late.count), lookup.modified.dropFirst(late.count))
        for (awaited, (registration, modified)) in zip(batch.awaited, pairs) {
            let key = PendingPushKey(awaited.key)
            guard let modified = outcome.unwrap(modified, of: key),
                let registration = outcome.unwrap(registration, of: key) ?? nil,
                awaited.registeredEpochMilliseconds == nil || PushBatch.isSoon(registration, after: modified)
            else { continue }
            let found = Found(
                orderType: awaited.key.order.orderType, order: awaited.key.order.order, device: awaited.key.device,
                registration: registration, records: awaited.records)
            if awaited.registeredEpochMilliseconds == nil {
                outcome.found.append(found)
            } else {
                outcome.registered.append(found)
            }
        }
        return outcome
    }

    /// Returns true if the gateway may be about to write a registration whose record was read.
    private func isUnsettled(_ registration: RegistrationRecord, _ current: RegistrationRecord?) -> Bool {
        let moment = registration.registeredEpochMilliseconds
        return self.now() - moment < Self.settlingMilliseconds
            && current.map { $0.registeredEpochMilliseconds < moment } ?? true
    }
}

extension PushLookup.Found {
    var key: RegistrationKey {
        RegistrationKey(device: self.device, order: OrderKey(orderType: self.orderType, order: self.order))
    }
}

extension PushLookup.Outcome {
    fileprivate mutating func unwrap<Value>(_ result: Result<Value, StoreError>, of key: PendingPushKey) -> Value? {
        switch result {
        case .success(let value): return value
        case .failure(let error) where error.code == .corrupt: self.damaged.append(error)
        case .failure(let error):
            self.failure = error
            self.failed.insert(key)
        }
        return nil
    }
}
