import NIOCore

/// One reply, assembled from the elements that the reader reports one by one.
///
/// All texts of a reply share one buffer: a reply of eight small texts costs one allocation instead of sixteen. So the
/// elements are only noted as they arrive, an array before its elements, and become values once they are complete. A
/// class because hiredis keeps its address while it parses.
final class ReplyBuilder {
    private enum Part {
        /// Followed by this many elements.
        case array(Int)
        /// Its range in `bytes`.
        case text(Range<Int>)
        case value(RedisValue)
    }

    /// Room for the texts of most replies that have no package in them.
    private static let usualLength = 256

    private let elementLimit: Int
    private var elements = 0
    private var parts: [Part] = []
    private var bytes = ByteBuffer()
    /// For each open array, the number of its elements that are still missing.
    private var missing: [Int] = []
    private var isComplete = false
    /// The reason why an element was refused.
    private(set) var refusal: String?

    init(elementLimit: Int) { self.elementLimit = elementLimit }

    /// Returns the reply, once, when all of its elements were added.
    func takeReply() -> RedisValue? {
        guard self.isComplete else { return nil }
        var index = 0
        let reply = self.value(at: &index)
        self.isComplete = false
        self.elements = 0
        self.parts.removeAll(keepingCapacity: self.parts.count <= 64)
        self.bytes = ByteBuffer()
        return reply
    }

    /// Begins an array; the next `count` elements belong to it.
    /// - Returns: false if the reply has too many elements.
    func open(count: Int) -> Bool {
        guard count > 0 else { return self.add(.array([])) }
        guard self.admit(count) else { return false }
        self.parts.append(.array(count))
        self.missing.append(count)
        return true
    }

    /// Adds a text.
    func add(text: UnsafeRawBufferPointer) -> Bool {
        if self.bytes.capacity == 0 { self.bytes.reserveCapacity(max(text.count, Self.usualLength)) }
        let start = self.bytes.writerIndex
        unsafe self.bytes.writeBytes(text)
        self.parts.append(.text(start..<self.bytes.writerIndex))
        return self.close()
    }

    /// Adds anything else that is not an array with elements.
    func add(_ value: RedisValue) -> Bool {
        self.parts.append(.value(value))
        return self.close()
    }

    /// Counts an element that is complete, and with it the arrays that it completes.
    private func close() -> Bool {
        while let last = self.missing.popLast() {
            guard last == 1 else {
                self.missing.append(last - 1)
                return true
            }
        }
        self.isComplete = true
        return true
    }

    /// - Parameter index: the index of the value's first part; then that of the next value's.
    private func value(at index: inout Int) -> RedisValue {
        let part = self.parts[index]
        index += 1
        switch part {
        case .value(let value): return value
        case .text(let range):
            // The default is never used: the range is one that was written.
            return .string(self.bytes.getSlice(at: range.lowerBound, length: range.count) ?? ByteBuffer())
        case .array(let count):
            var values: [RedisValue] = []
            values.reserveCapacity(count)
            for _ in 0..<count { values.append(self.value(at: &index)) }
            return .array(values)
        }
    }

    private func admit(_ count: Int) -> Bool {
        guard count <= self.elementLimit - self.elements else {
            self.refusal = "more than \(self.elementLimit) elements"
            return false
        }
        self.elements += count
        return true
    }
}
