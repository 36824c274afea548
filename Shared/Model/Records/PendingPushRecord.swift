/// The value of `waybill.push-pending`: devices that could not be notified of a change yet. The key, a
/// `PendingPushKey`, says which.
///
/// A tombstone there says that they have been notified; see `PendingPushHeader`.
public struct PendingPushRecord: Hashable, Sendable {
    /// The moment when the newest change that it covers was published, milliseconds since 1970.
    public var sinceEpochMilliseconds: Int64
    /// The moment when the device registered, milliseconds since 1970: it is notified only if its order changed shortly
    /// before. If nil, it is notified in any case.
    public var registeredEpochMilliseconds: Int64?

    public init(sinceEpochMilliseconds: Int64, registeredEpochMilliseconds: Int64? = nil) {
        self.sinceEpochMilliseconds = sinceEpochMilliseconds
        self.registeredEpochMilliseconds = registeredEpochMilliseconds
    }

    /// The record as JSON in UTF-8, members sorted.
    public var encoded: [UInt8] {
        var members: [(String, JSON)] = [
            ("format", .integer(RecordError.format)), ("since", .integer(self.sinceEpochMilliseconds)),
        ]
        if let registered = self.registeredEpochMilliseconds { members.append(("registered", .integer(registered))) }
        return JSON.object(JSONObject(members)).serialized
    }

    /// Reads what `encoded` made; members that a later version of Waybill may have added are ignored.
    ///
    /// - Throws: `RecordError` with the JSON path of what is wrong.
    public static func decode(_ value: [UInt8]) throws(RecordError) -> PendingPushRecord {
        var object = try RecordError.members(value, "a pending push record")
        let range = 0...RFC3339.latest * 1000
        return PendingPushRecord(
            sinceEpochMilliseconds: try object.integer("since", in: range),
            registeredEpochMilliseconds: try object.has("registered") ? object.integer("registered", in: range) : nil)
    }
}

/// Headers of `waybill.push-pending`.
public enum PendingPushHeader {
    /// The header of a tombstone: the offset, in decimal digits, of the record in the same partition that is done. A
    /// record with the key between that record and the tombstone is not done.
    public static let completed = "waybill-completed"
}

/// The devices that have yet to be notified: all devices of an order, or one of them.
public struct PendingPushKey: Hashable, Sendable {
    public let order: OrderKey
    /// The device; nil for every device that is registered for the order.
    public let device: DeviceIdentifier?

    public init(order: OrderKey, device: DeviceIdentifier? = nil) {
        self.order = order
        self.device = device
    }

    public init(_ registration: RegistrationKey) {
        self.init(order: registration.order, device: registration.device)
    }

    /// - Parameter text: `<type>/<id>` or `<device>/<type>/<id>`.
    public init(_ text: String) throws(IdentifierError) {
        let slashes = text.utf8.count { $0 == UInt8(ascii: "/") }
        if slashes > 1 {
            self.init(try RegistrationKey(text))
        } else {
            self.init(order: try OrderKey(text))
        }
    }

    /// `<type>/<id>`, or `<device>/<type>/<id>` with the device in plain text.
    public var text: String {
        guard let device else { return self.order.description }
        return RegistrationKey(device: device, order: self.order).text
    }
}
