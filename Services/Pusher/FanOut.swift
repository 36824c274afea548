import Kafka
import Model
import Store

/// Whom a batch of records makes us tell.
///
/// One notification per push token and order type says everything: it does not name an order, and the device asks for
/// all that changed. Source: Wallet Orders §4.1
struct FanOut {
    /// One device to tell, and every registration that made us do so.
    struct Target: Hashable {
        let orderType: OrderTypeIdentifier
        let pushToken: PushToken
    }

    /// The registrations behind each target, in the order of their appearance.
    private(set) var targets: [Target] = []
    private(set) var registrations: [Target: [(key: RegistrationKey, record: RegistrationRecord)]] = [:]
    /// Tellings that were saved.
    private(set) var mergedCount = 0

    mutating func add(_ key: RegistrationKey, _ record: RegistrationRecord) {
        let target = Target(orderType: key.order.orderType, pushToken: record.pushToken)
        if self.registrations[target] == nil {
            self.targets.append(target)
        } else {
            self.mergedCount += 1
        }
        self.registrations[target, default: []].append((key, record))
    }
}

/// What the records of a batch say, before anybody is looked up.
struct PushBatch {
    /// How long after a change a new registration still causes a push: a device that registers just after a change
    /// must not miss it. Source: DESIGN §5
    static let registrationWindowSeconds: Int64 = 15 * 60

    /// Whether a registration came so soon after its order's last change that the device has to be told.
    ///
    /// Measured from the registration, not from now: however late the record is read, nobody is missed.
    /// - Parameter modified: of the order, UNIX seconds; nil if it is unknown, or removed.
    static func isSoon(_ registration: RegistrationRecord, after modified: Int64?) -> Bool {
        guard let modified else { return false }
        return modified >= registration.registeredEpochMilliseconds / 1000 - Self.registrationWindowSeconds
    }

    /// Orders that have a new version, each once.
    private(set) var changed: [OrderKey] = []
    /// New registrations, the last of each device and order.
    private(set) var registered: [RegistrationKey: RegistrationRecord] = [:]
    /// Records that could not be understood: topic/partition/offset and why.
    private(set) var unreadable: [(origin: String, reason: String)] = []

    init(_ records: [KafkaRecord], topics: Topics) {
        var seen: Set<OrderKey> = []
        for record in records {
            do {
                // Without a key, or with one that is no text, a record names nothing.
                let key = String(validating: record.key ?? [], as: UTF8.self) ?? ""
                if record.topic == topics.registrations {
                    let registration = try RegistrationKey(key)
                    self.registered[registration] = try record.value.map {
                        bytes throws in try RegistrationRecord.decode(bytes)
                    }
                } else {
                    let order = try OrderKey(key)
                    // A removed order has nobody to tell; one that changed again later in the batch is told once.
                    if record.value == nil {
                        self.changed.removeAll { $0 == order }
                        seen.remove(order)
                    } else if seen.insert(order).inserted {
                        self.changed.append(order)
                    }
                }
            } catch {
                self.unreadable.append(("\(record.topic)/\(record.partition)/\(record.offset)", "\(error)"))
            }
        }
    }
}
