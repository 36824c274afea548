/// The last changes that were applied to an order, so that a change sent twice is applied once.
///
/// A change is remembered as the 64-bit FNV-1a hash of `source`, a zero byte and `id`: 512 bytes an order at most,
/// however long the identifiers are. A change that is new but has the hash of one of the 32 would be lost: the odds are
/// 32/2^64, one in 6 * 10^17, which at a thousand changes a second is once in 18 million years. Publishers are trusted
/// not to search for collisions: they could as well not send the change.
public struct RecentChanges: Hashable, Sendable {
    /// The hashes, that of the last applied change at the end.
    private var hashes: [UInt64] = []

    /// The most changes that are remembered. Source: Design §4.1, step 2
    public static let limit = 32

    public init() {}

    public var isEmpty: Bool { self.hashes.isEmpty }

    /// Returns true if the change is among those remembered.
    public func contains(source: String, id: String) -> Bool { self.hashes.contains(Self.hash(source, id)) }

    /// Remembers a change that was applied; beyond the limit the oldest one is forgotten.
    public mutating func append(source: String, id: String) {
        if self.hashes.count >= Self.limit { self.hashes.removeFirst(self.hashes.count - Self.limit + 1) }
        self.hashes.append(Self.hash(source, id))
    }

    /// 16 hexadecimal digits for each change: the field `recent` in Redis.
    public var encoded: [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(self.hashes.count * 16)
        for hash in self.hashes {
            for shift in stride(from: UInt64(60), through: 0, by: -4) {
                let digit = UInt8(truncatingIfNeeded: hash >> shift) & 0xF
                bytes.append(digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10)
            }
        }
        return bytes
    }

    /// The digits as text, for `OrderRecord`.
    public var text: String { String(decoding: self.encoded, as: UTF8.self) }

    /// - Throws: `RecordError` when the bytes are not what `encoded` makes.
    public init(decoding bytes: [UInt8]) throws(RecordError) {
        guard bytes.count % 16 == 0, bytes.count <= Self.limit * 16 else {
            throw RecordError("the recent changes must be at most \(Self.limit) times 16 digits, not \(bytes.count)")
        }
        var hash: UInt64 = 0
        for (index, byte) in bytes.enumerated() {
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): hash = hash << 4 | UInt64(byte - UInt8(ascii: "0"))
            case UInt8(ascii: "a")...UInt8(ascii: "f"): hash = hash << 4 | UInt64(byte - UInt8(ascii: "a") + 10)
            default: throw RecordError("the recent changes have a byte that is not a digit of 0-9 a-f")
            }
            if index % 16 == 15 { self.hashes.append(hash) }
        }
    }

    private static func hash(_ source: String, _ id: String) -> UInt64 {
        var hash = FNV1a()
        hash.combine(source.utf8)
        hash.combine(0)
        hash.combine(id.utf8)
        return hash.value
    }
}
