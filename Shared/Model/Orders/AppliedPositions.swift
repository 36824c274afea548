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
