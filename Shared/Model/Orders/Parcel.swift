/// A parcel by its carrier and tracking number, which are compared without case, spaces and punctuation.
public struct Parcel: Hashable, Sendable, CustomStringConvertible {
    /// The most parcels of an order that can be looked up.
    public static let limit = 64
    private static let lengthLimit = 100

    /// Lower case, without spaces and punctuation; empty for a fulfillment that names no carrier.
    public let carrier: String
    public let number: String

    public var description: String { self.carrier.isEmpty ? self.number : "\(self.carrier) \(self.number)" }

    /// - Returns: nil without a number, or if one of them has more than 100 bytes.
    public init?(carrier: String, number: String) {
        (self.carrier, self.number) = (Self.plain(carrier), Self.plain(number))
        guard !self.number.isEmpty, max(self.carrier.utf8.count, self.number.utf8.count) <= Self.lengthLimit else {
            return nil
        }
    }

    private static func plain(_ text: String) -> String {
        let bytes = text.utf8.compactMap { byte -> UInt8? in
            switch byte {
            case UInt8(ascii: "A")...UInt8(ascii: "Z"): byte | 0x20
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), 0x80...: byte
            default: nil
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}

extension OrderDocument {
    /// The identifiers of fulfillments by their parcels, the first of several that share one.
    ///
    /// Source: Wallet Orders §3, `fulfillments`
    public var parcels: [Parcel: String] {
        var parcels: [Parcel: String] = [:]
        for fulfillment in self.members["fulfillments"]?.array ?? [] {
            guard let members = fulfillment.object, let number = members["trackingNumber"]?.string,
                let identifier = members["fulfillmentIdentifier"]?.string,
                let parcel = Parcel(carrier: members["carrier"]?.string ?? "", number: number),
                parcels[parcel] == nil, parcels.count < Parcel.limit
            else { continue }
            parcels[parcel] = identifier
        }
        return parcels
    }
}
