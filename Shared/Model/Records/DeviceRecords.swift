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
        var object = try RecordError.members(of: try RecordError.json(value, "a registration record"))
        return RegistrationRecord(
            pushToken: try object.identifier("pushToken") { (text) throws(IdentifierError) in try PushToken(text) },
            registeredEpochMilliseconds: try object.integer("registered", in: 0...RFC3339.latest * 1000))
    }
}

/// The value of `waybill.push-pending`: devices that could not be notified of a change yet. The key, a
/// `PendingPushKey`, says which.
///
/// A tombstone there says that they have been notified; see `RecordHeader.completed`.
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
        var object = try RecordError.members(of: try RecordError.json(value, "a pending push record"))
        let range = 0...RFC3339.latest * 1000
        return PendingPushRecord(
            sinceEpochMilliseconds: try object.integer("since", in: range),
            registeredEpochMilliseconds: try object.has("registered") ? object.integer("registered", in: range) : nil)
    }
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

/// The reason why bytes that Waybill itself once wrote cannot be read, in a sentence with the JSON path.
///
/// It contains no values, since records contain tokens.
public struct RecordError: Error, Hashable, Sendable, CustomStringConvertible {
    public let message: String

    init(_ message: String) { self.message = message }

    public var description: String { self.message }

    /// The format of the records that Waybill writes to its own topics: their member `format`. A record of another one
    /// is not read, since its other members may mean something else.
    /// Source: Design §3
    static let format: Int64 = 1

    /// - Parameters:
    ///   - what: the beginning of the sentence.
    ///   - text: receives the position of the text of the member `document`, if there is one.
    static func json(
        _ bytes: [UInt8], _ what: String, document text: inout Range<Int>
    ) throws(RecordError) -> JSON {
        do {
            return try JSON(parsing: bytes, textOf: "document", at: &text)
        } catch {
            // The parser's messages may repeat a member's name, never a value.
            throw RecordError("reading \(what): \(error)")
        }
    }

    static func json(_ bytes: [UInt8], _ what: String) throws(RecordError) -> JSON {
        var text = 0..<0
        return try Self.json(bytes, what, document: &text)
    }

    /// Returns the members of a record of this format.
    static func members(of json: JSON) throws(RecordError) -> JSONMembers<RecordError> {
        var members = try JSONMembers(json, path: "$", failure: RecordError.init)
        guard try members.value("format").integer == Self.format else {
            throw members.wrong("format", "must be \(Self.format), which this version of Waybill reads")
        }
        return members
    }
}
