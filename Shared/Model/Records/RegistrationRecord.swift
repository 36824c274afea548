/// The value of `waybill.registrations`: a device is to be notified of an order. The key says which device and order.
///
/// A registration that ended is a tombstone (null value) there and has no record.
/// Source: Design §3
public struct RegistrationRecord: Hashable, Sendable {
    public var pushToken: PushToken
    /// The moment of registration: a later one survives if APNs retires the token as of an earlier moment.
    /// Source: Wallet Orders §4.6
    public var registeredEpochMilliseconds: Int64

    public init(pushToken: PushToken, registeredEpochMilliseconds: Int64) {
        self.pushToken = pushToken
        self.registeredEpochMilliseconds = registeredEpochMilliseconds
    }

    /// The record as JSON in UTF-8, members sorted.
    public var encoded: [UInt8] {
        let json: JSON = [
            "format": .integer(RecordError.format),
            "pushToken": .string(self.pushToken.rawValue),
            "registered": .integer(self.registeredEpochMilliseconds),
        ]
        return json.serialized
    }

    /// Reads what `encoded` made; members that a later version of Waybill may have added are ignored.
    ///
    /// - Throws: `RecordError` with the JSON path of what is wrong.
    public static func decode(_ value: [UInt8]) throws(RecordError) -> RegistrationRecord {
        var object = try RecordError.members(value, "a registration record")
        return RegistrationRecord(
            pushToken: try object.identifier("pushToken") { (text) throws(IdentifierError) in try PushToken(text) },
            registeredEpochMilliseconds: try object.integer("registered", in: 0...RFC3339.latest * 1000))
    }
}
