/// The last position of each partition and the last sequence number of each source that an order has seen. They
/// distinguish redelivered and late changes from new ones.
public struct AppliedPositions: Hashable, Sendable {
    private struct Source: Hashable, Sendable {
        let name: String
        let sequence: String
    }

    /// In order of use, the most recently used last.
    private var partitions: [ChangePosition] = []
    /// In order of use, the most recently used last.
    private var sources: [Source] = []

    /// The most partitions, and the most sources, that are remembered; the least recently used is dropped first.
    ///
    /// An order has one partition of each topic of changes, plus one for each move: to another cluster, or to another
    /// partition after the topic got more.
    public static let limit = 16

    public init() {}

    public var isEmpty: Bool { self.partitions.isEmpty && self.sources.isEmpty }

    /// Returns the position of the last change of a partition; nil if none of it was seen.
    ///
    /// - Parameter origin: nil means that of the topic whose change was seen last.
    public func position(inPartition partition: Int32, of origin: ChangeOrigin? = nil) -> ChangePosition? {
        guard let origin else { return self.partitions.last { $0.partition == partition } }
        return self.index(ofPartition: partition, of: origin).map { self.partitions[$0] }
    }

    /// Returns the index of a partition's position; one that was recorded without an origin matches any.
    private func index(ofPartition partition: Int32, of origin: ChangeOrigin) -> Int? {
        self.partitions.lastIndex { $0.partition == partition && $0.origin == origin }
            ?? self.partitions.lastIndex { $0.partition == partition && $0.origin == .unknown }
    }

    /// Returns true if a change at this position was seen before.
    ///
    /// A lower offset with a newer timestamp means that the topic was recreated and its offsets start at 0 again.
    /// Source: Design §4.1, step 2
    func isRedelivery(_ position: ChangePosition) -> Bool {
        guard let seen = self.position(inPartition: position.partition, of: position.origin) else { return false }
        return position.offset <= seen.offset && position.timestampMilliseconds <= seen.timestampMilliseconds
    }

    /// Remembers that the change at this position was processed. A redelivery changes nothing.
    ///
    /// Producers set the timestamps, which need not grow with the offset, so the highest one is kept: with the last
    /// one, a redelivery of an earlier record with a higher timestamp would look like a recreated topic.
    public mutating func advance(to position: ChangePosition) {
        guard !self.isRedelivery(position) else { return }
        var next = position
        if let index = self.index(ofPartition: position.partition, of: position.origin) {
            let seen = self.partitions.remove(at: index)
            if position.offset > seen.offset {
                next.timestampMilliseconds = max(seen.timestampMilliseconds, position.timestampMilliseconds)
            }
        }
        self.partitions.append(next)
        if self.partitions.count > Self.limit { self.partitions.removeFirst() }
    }

    /// Returns true if a change of this source with a higher number was applied before. An equal number is not lower.
    func isOutOfSequence(source: String, sequence: String) -> Bool {
        guard let seen = self.sources.last(where: { $0.name == source }) else { return false }
        return isLowerNumber(sequence, than: seen.sequence)
    }

    /// Remembers the sequence number of the last applied change of this source.
    public mutating func apply(source: String, sequence: String) {
        if let index = self.sources.lastIndex(where: { $0.name == source }) { self.sources.remove(at: index) }
        self.sources.append(Source(name: source, sequence: sequence))
        if self.sources.count > Self.limit { self.sources.removeFirst() }
    }

    /// `{"partitions": [[partition, offset, milliseconds, origin], …], "sequences": [[source, sequence], …]}`; an
    /// unknown origin is left out.
    public var json: JSON {
        [
            "partitions": .array(
                self.partitions.map {
                    let numbers: [JSON] = [
                        .integer(Int64($0.partition)), .integer($0.offset), .integer($0.timestampMilliseconds),
                    ]
                    return .array($0.origin == .unknown ? numbers : numbers + [.string($0.origin.text)])
                }),
            "sequences": .array(self.sources.map { [.string($0.name), .string($0.sequence)] }),
        ]
    }

    /// The JSON as UTF-8: the field `sources` in Redis.
    public var encoded: [UInt8] { self.json.serialized }

    /// - Throws: `RecordError` when the JSON is not what `json` makes; members it does not make are ignored.
    public init(json: JSON, path: String = "$") throws(RecordError) {
        var object = try JSONMembers(json, path: path, failure: RecordError.init)
        for (index, entry) in try object.array("partitions").enumerated() {
            guard let numbers = entry.array, numbers.count >= 3, let partition = numbers[0].integer,
                let partition = Int32(exactly: partition), let offset = numbers[1].integer,
                let timestamp = numbers[2].integer
            else {
                throw RecordError(
                    "\(path).partitions[\(index)] must be three integers: partition, offset and milliseconds")
            }
            self.partitions.append(
                ChangePosition(
                    partition: partition, offset: offset, timestampMilliseconds: timestamp,
                    origin: ChangeOrigin(text: numbers.count > 3 ? numbers[3].string : nil)))
        }
        for (index, entry) in try object.array("sequences").enumerated() {
            guard let texts = entry.array, texts.count >= 2, let name = texts[0].string,
                let sequence = texts[1].string, sequence.utf8.allSatisfy({ $0 &- UInt8(ascii: "0") < 10 })
            else {
                throw RecordError("\(path).sequences[\(index)] must be a source and the digits of its sequence")
            }
            self.sources.append(Source(name: name, sequence: sequence))
        }
        self.partitions.removeFirst(max(self.partitions.count - Self.limit, 0))
        self.sources.removeFirst(max(self.sources.count - Self.limit, 0))
    }

    /// - Throws: `RecordError` when the bytes are not what `encoded` makes.
    public init(decoding bytes: [UInt8]) throws(RecordError) {
        try self.init(json: try RecordError.json(bytes, "the source positions"))
    }
}

/// Returns true if the left number is lower. Both are decimal digits of any length.
func isLowerNumber(_ left: String, than right: String) -> Bool {
    let left = left.utf8.drop { $0 == UInt8(ascii: "0") }
    let right = right.utf8.drop { $0 == UInt8(ascii: "0") }
    return left.count == right.count ? left.lexicographicallyPrecedes(right) : left.count < right.count
}

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
