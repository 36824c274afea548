/// The figures of a brand's adoption that are counted by day.
public enum AdoptionFigure: String, CaseIterable, Sendable {
    /// Order details that the checkout role handed out.
    case details
    /// Orders whose package was fetched for the first time.
    case fetched
    /// Orders that got their first device.
    case added
    /// Orders that lost their last device, since Wallet unregistered it or APNs does not know its push token any more.
    case removed
    /// Fetches of a version by a device that had an older one.
    case updated
    /// Those of them within `AdoptionFigure.promptSeconds` of the version's second.
    case prompt

    /// The time from a version's second within which a fetch of it is prompt.
    public static let promptSeconds: Int64 = 60
}

/// The value of `waybill.adoption`: what was counted of a brand on one day. The key is an `AdoptionKey`.
///
/// It names no order, device or person.
public struct AdoptionRecord: Hashable, Sendable {
    /// One that is missing is 0.
    public var counts: [AdoptionFigure: Int64]
    /// The orders in Wallet, and the devices that have any, when the record was written; nil if they were not counted
    /// yet.
    public var orders: Int64?
    public var devices: Int64?

    public init(counts: [AdoptionFigure: Int64], orders: Int64? = nil, devices: Int64? = nil) {
        self.counts = counts
        self.orders = orders
        self.devices = devices
    }

    /// The record as JSON in UTF-8, members sorted.
    public var encoded: [UInt8] {
        var members: [(String, JSON)] = [("format", .integer(RecordError.format))]
        for (figure, count) in self.counts where count != 0 { members.append((figure.rawValue, .integer(count))) }
        if let orders { members.append(("orders", .integer(orders))) }
        if let devices { members.append(("devices", .integer(devices))) }
        return JSON.object(JSONObject(members.sorted { $0.0 < $1.0 })).serialized
    }

    private static let range = 0...(Int64(1) << 53 - 1)

    /// Reads what `encoded` made; members that a later version of Waybill may have added are ignored.
    ///
    /// - Throws: `RecordError` with the JSON path of what is wrong.
    public static func decode(_ value: [UInt8]) throws(RecordError) -> AdoptionRecord {
        var object = try RecordError.members(of: try RecordError.json(value, "an adoption record"))
        var record = AdoptionRecord(counts: [:])
        for figure in AdoptionFigure.allCases where object.has(figure.rawValue) {
            record.counts[figure] = try object.integer(figure.rawValue, in: Self.range)
        }
        if object.has("orders") { record.orders = try object.integer("orders", in: Self.range) }
        if object.has("devices") { record.devices = try object.integer("devices", in: Self.range) }
        return record
    }
}

/// The key of an `AdoptionRecord`: `<orderTypeIdentifier>/<day>/<part>`.
///
/// A day has a further part if Redis was lost on it, since the counts begin at 0 then: the day's counts are the sums of
/// its parts.
public struct AdoptionKey: Hashable, Sendable {
    public let brand: OrderTypeIdentifier
    /// `2025-03-05`, in UTC.
    public let day: String
    /// Letters and digits.
    public let part: String

    public init(brand: OrderTypeIdentifier, day: String, part: String) {
        self.brand = brand
        self.day = day
        self.part = part
    }

    public init(_ text: String) throws(IdentifierError) {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 3, RFC3339.parse("\(parts[1])T00:00:00Z") != nil, !parts[2].isEmpty else {
            throw IdentifierError(description: "a key of adoption is <orderTypeIdentifier>/<day>/<part>")
        }
        self.init(
            brand: try OrderTypeIdentifier(String(parts[0])), day: String(parts[1]), part: String(parts[2]))
    }

    public var text: String { "\(self.brand)/\(self.day)/\(self.part)" }

    /// Returns the day of a moment, in UTC.
    public static func day(epochSeconds: Int64) -> String {
        String(RFC3339.format(epochSeconds: epochSeconds).prefix(10))
    }
}
