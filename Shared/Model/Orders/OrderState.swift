/// The current state of an order: a package is made of it, and later changes are folded into it.
///
/// A removed order stays as a tombstone (`isRemoved`, empty document), so that a redelivered change cannot bring it
/// back; only a new `waybill.order.replaced` can.
public struct OrderState: Hashable, Sendable {
    public var key: OrderKey
    public var document: OrderDocument
    public var token: AuthenticationToken
    /// Grows by one with each version that is stored, from `firstVersion`.
    public var version: Int64
    /// The moment of `updatedAt` and of `Last-Modified`; grows by at least a second with each version.
    public var modifiedEpochSeconds: Int64
    public var positions: AppliedPositions
    public var recent: RecentChanges
    public var isRemoved: Bool
    /// The parts that the document is made of; nil if it was never merged, empty if it is a plain document again.
    public var contributions: Contributions?

    public init(
        key: OrderKey, document: OrderDocument, token: AuthenticationToken, version: Int64,
        modifiedEpochSeconds: Int64, positions: AppliedPositions = AppliedPositions(),
        recent: RecentChanges = RecentChanges(), isRemoved: Bool = false, contributions: Contributions? = nil
    ) {
        self.key = key
        self.document = document
        self.token = token
        self.version = version
        self.modifiedEpochSeconds = modifiedEpochSeconds
        self.positions = positions
        self.recent = recent
        self.isRemoved = isRemoved
        self.contributions = contributions
    }

    /// Returns the first version of an order of which nothing is known.
    ///
    /// It is above every version of an earlier order with this key: when all trace of that order is gone, a compacted
    /// topic may still have its records, and a restore takes the highest version. 2^20 versions fit into a second, and
    /// 2^53 is reached in the year 2242.
    public static func firstVersion(nowEpochSeconds: Int64) -> Int64 {
        let seconds = min(max(nowEpochSeconds, 0), Self.versionRange.upperBound >> Self.ordinalBits - 1)
        return seconds << Self.ordinalBits + 1
    }

    /// The low bits of a version, which count an order's versions from 1; the high bits are the first version's second.
    public static let ordinalBits = 20

    /// Returns the complete order.json, with the members that Waybill owns and those of the brand.
    ///
    /// Image members may still name `https` URLs; the packager decides what becomes of them.
    public func orderJSON(rules: BrandRules) -> JSON {
        let order = self.document.complete(
            key: self.key, token: self.token, modifiedEpochSeconds: self.modifiedEpochSeconds, rules: rules)
        return order.object.map { .object($0.inWholeSeconds) } ?? order
    }
}

extension OrderDocument {
    /// Returns the complete order.json of this document.
    func complete(
        key: OrderKey, token: AuthenticationToken, modifiedEpochSeconds: Int64, rules: BrandRules
    ) -> JSON {
        var order = self.members
        func set(_ name: String, _ value: JSON?) { order[name] = value }
        func fill(_ name: String, _ value: JSON?) { if order[name] == nil { order[name] = value } }
        set("authenticationToken", self.isStatic ? nil : .string(token.rawValue))
        fill("changeNotifications", rules.changeNotifications.map { .string($0.rawValue) })
        fill("merchant", rules.merchant.map { .object($0) })
        set("orderIdentifier", .string(key.order.rawValue))
        set("orderType", "ecommerce")
        set("orderTypeIdentifier", .string(key.orderType.rawValue))
        fill("returnInfo", rules.returnInfo.map { .object($0) })
        fill("schemaVersion", .integer(self.impliedSchemaVersion))
        set("updatedAt", .string(RFC3339.format(epochSeconds: modifiedEpochSeconds)))
        set("webServiceURL", self.isStatic ? nil : .string(rules.webServiceURL))
        return .object(order)
    }

    /// The schema version of a document that does not ask for one.
    ///
    /// It is 1, which every device understands. Only 2 lets the deprecated `payment.status` be left out, so a payment
    /// described by `transactions` alone has 2.
    /// Source: Wallet Orders §3.1
    private var impliedSchemaVersion: Int64 {
        guard let payment = self.members["payment"]?.object else { return 1 }
        return payment["status"] == nil && payment["transactions"] != nil ? 2 : 1
    }
}

extension OrderState {
    /// The versions that are accepted when read back; at most 2^53, so that any JSON reader keeps them exact.
    public static let versionRange: ClosedRange<Int64> = 1...(1 << 53)
    /// The modification seconds that are accepted when read back: 1970 to 9999.
    static let modificationRange: ClosedRange<Int64> = 0...RFC3339.latest

    /// The field `document` in Redis: JSON, empty for a removed order.
    public var documentBytes: [UInt8] {
        self.isRemoved ? [] : self.document.serialized
    }

    /// The field `sources` in Redis.
    public var sourcesBytes: [UInt8] { self.positions.encoded }

    /// The field `contributions` in Redis: empty to remove it, nil to leave it as it is.
    public var contributionsBytes: [UInt8]? {
        self.contributions.map { $0.isEmpty || self.isRemoved ? [] : $0.json(version: self.version).serialized }
    }

    /// The field `recent` in Redis.
    public var recentBytes: [UInt8] { self.recent.encoded }

    /// Reads the fields back. An empty document is that of a removed order.
    ///
    /// - Throws: `RecordError` when a field is not what was written.
    public init(
        key: OrderKey, document: [UInt8], token: String, version: Int64, modifiedEpochSeconds: Int64,
        sources: [UInt8], recent: [UInt8], contributions: [UInt8]? = nil
    ) throws(RecordError) {
        guard Self.versionRange.contains(version), Self.modificationRange.contains(modifiedEpochSeconds) else {
            throw RecordError(
                "the version \(version) or the modification second \(modifiedEpochSeconds) is out of range")
        }
        var read = OrderDocument.empty
        if !document.isEmpty {
            guard case .object(let object) = try RecordError.json(document, "an order document") else {
                throw RecordError("the order document must be an object")
            }
            read = OrderDocument(members: object, text: document)
        }
        let parsedToken: AuthenticationToken
        do {
            parsedToken = try AuthenticationToken(token)
        } catch {
            throw RecordError("the token is wrong: \(error)")
        }
        var parts: Contributions?
        if let contributions, !contributions.isEmpty, !document.isEmpty {
            let json = try RecordError.json(contributions, "the contributions")
            parts = try Contributions.read(json, version: version, path: "$")
        }
        self.init(
            key: key, document: read, token: parsedToken, version: version,
            modifiedEpochSeconds: modifiedEpochSeconds, positions: try AppliedPositions(decoding: sources),
            recent: try RecentChanges(decoding: recent), isRemoved: document.isEmpty, contributions: parts)
    }
}
