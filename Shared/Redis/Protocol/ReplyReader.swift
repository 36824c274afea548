// Owner: `ReplyReader` owns one `redisReader`, its function table and the builder that the callbacks fill.
// Thread: that of the connection's event loop; nothing here blocks.
// Bounded: bytes and elements of one reply (`Limits`), depth by hiredis (7), the buffer kept between replies (1 MiB).
import CHiredis
import NIOCore

/// A reader that turns bytes of a connection into replies, incrementally: the bytes may be split anywhere.
///
/// hiredis copies its input and moves the rest of its buffer after each reply of a kilobyte, so bytes are fed in small
/// slices, each consumed before the next one (hiredis#656: quadratic otherwise).
@safe
struct ReplyReader: ~Copyable {
    /// Limits for one reply.
    struct Limits: Sendable {
        /// Encoded bytes of one reply.
        var bytes = 64 << 20
        /// Elements of all arrays of one reply; each costs more memory than bytes on the wire.
        var elements = 1 << 20
    }

    private static let sliceLength = 16 << 10
    /// An empty buffer larger than this is freed. The default of 16 KiB would free and grow it again for each package.
    private static let keptBufferLength = 1 << 20

    private let raw: UnsafeMutablePointer<redisReader>
    private let functions: UnsafeMutablePointer<redisReplyObjectFunctions>
    /// Freed only after `redisReaderFree` has returned, when no callback can run.
    private let builder: UnsafeMutablePointer<ReplyBuilder>
    private let limits: Limits
    private var fed = ByteBuffer()
    /// Bytes passed to hiredis since the last complete reply.
    private var unfinished = 0
    private var failure: RedisError?

    /// - Throws: `RedisError` with code `.protocol` if there is no memory for it.
    init(limits: Limits = Limits()) throws(RedisError) {
        let functions = UnsafeMutablePointer<redisReplyObjectFunctions>.allocate(capacity: 1)
        unsafe functions.initialize(to: replyFunctions())
        guard let raw = unsafe redisReaderCreateWithFunctions(functions) else {
            unsafe functions.deallocate()
            throw RedisError(.protocol, "creating the reply reader: out of memory")
        }
        let builder = UnsafeMutablePointer<ReplyBuilder>.allocate(capacity: 1)
        unsafe builder.initialize(to: ReplyBuilder(elementLimit: limits.elements))
        unsafe raw.pointee.maxbuf = Self.keptBufferLength
        unsafe raw.pointee.privdata = UnsafeMutableRawPointer(builder)
        unsafe self.raw = raw
        unsafe self.functions = functions
        unsafe self.builder = builder
        self.limits = limits
    }

    deinit {
        unsafe redisReaderFree(self.raw)
        unsafe self.functions.deallocate()
        unsafe self.builder.deinitialize(count: 1)
        unsafe self.builder.deallocate()
    }

    /// Adds more bytes. Call `next()` until it returns nil afterwards.
    mutating func feed(_ bytes: ByteBuffer) {
        if self.fed.readableBytes == 0 {
            self.fed = bytes
        } else {
            self.fed.writeImmutableBuffer(bytes)
        }
    }

    /// Returns the next complete reply, or nil if more bytes are needed.
    /// - Throws: `RedisError` with code `.protocol`, the same one on every later call: the end of the reply is not
    ///   known any more.
    mutating func next() throws(RedisError) -> RedisValue? {
        if let failure { throw failure }
        do throws(RedisError) {
            while true {
                if let reply = try self.reply() { return reply }
                guard self.fed.readableBytes > 0 else { return nil }
                guard self.unfinished <= self.limits.bytes else {
                    throw RedisError(.protocol, "reading a reply: longer than \(self.limits.bytes) bytes")
                }
                try self.feedSlice()
            }
        } catch {
            self.failure = error
            throw error
        }
    }

    private mutating func reply() throws(RedisError) -> RedisValue? {
        guard self.unfinished > 0 else { return nil }
        var marker: UnsafeMutableRawPointer?
        guard unsafe redisReaderGetReply(self.raw, &marker) == REDIS_OK else {
            throw RedisError(.protocol, "reading a reply: \(self.errorText)")
        }
        guard unsafe marker != nil, let value = unsafe self.builder.pointee.takeReply() else { return nil }
        self.unfinished = unsafe self.raw.pointee.len - self.raw.pointee.pos
        return value
    }

    private mutating func feedSlice() throws(RedisError) {
        let length = min(self.fed.readableBytes, Self.sliceLength)
        let raw = unsafe self.raw
        let result = unsafe self.fed.readWithUnsafeReadableBytes { bytes in
            let start = unsafe bytes.baseAddress?.assumingMemoryBound(to: CChar.self)
            return unsafe (length, redisReaderFeed(raw, start, length))
        }
        guard result == REDIS_OK else { throw RedisError(.protocol, "reading a reply: \(self.errorText)") }
        self.unfinished += length
    }

    /// Our own reason if the builder refused something (which hiredis reports as out of memory), else hiredis's text.
    private var errorText: String {
        if let refusal = unsafe self.builder.pointee.refusal { return refusal }
        return unsafe withUnsafeBytes(of: self.raw.pointee.errstr) { bytes in
            unsafe String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
        }
    }
}

/// Returns the callbacks by which hiredis reports each element. Their result is a marker, not an object: only null
/// matters.
private func replyFunctions() -> redisReplyObjectFunctions {
    unsafe redisReplyObjectFunctions(
        createString: { task, text, length in
            unsafe withBuilder(task) { builder, type in
                let bytes = unsafe UnsafeRawBufferPointer(start: text, count: length)
                switch type {
                case REDIS_REPLY_STATUS: return unsafe builder.add(.status(String(decoding: bytes, as: UTF8.self)))
                case REDIS_REPLY_ERROR: return unsafe builder.add(.error(String(decoding: bytes, as: UTF8.self)))
                default: return unsafe builder.add(text: bytes)
                }
            }
        },
        createArray: { task, count in unsafe withBuilder(task) { builder, _ in builder.open(count: Int(count)) } },
        createInteger: { task, value in unsafe withBuilder(task) { builder, _ in builder.add(.integer(value)) } },
        createNil: { task in unsafe withBuilder(task) { builder, _ in builder.add(.null) } },
        freeObject: { _ in })
}

/// Runs `body` with the builder in the task's private data; a null result makes hiredis stop.
private func withBuilder(
    _ task: UnsafePointer<redisReadTask>?, _ body: (inout ReplyBuilder, Int32) -> Bool
) -> UnsafeMutableRawPointer? {
    guard let task = unsafe task, let context = unsafe task.pointee.privdata else { return nil }
    let builder = unsafe context.assumingMemoryBound(to: ReplyBuilder.self)
    return unsafe body(&builder.pointee, task.pointee.type) ? context : nil
}

/// Returns the version of hiredis that this program was built with; the library does not report its own.
public func hiredisVersion() -> String { "\(HIREDIS_MAJOR).\(HIREDIS_MINOR).\(HIREDIS_PATCH)" }

/// One reply, assembled from the elements that the reader reports one by one.
///
/// All texts of a reply share one buffer: a reply of eight small texts costs one allocation instead of sixteen. So the
/// elements are only noted as they arrive, an array before its elements, and become values once they are complete. The
/// reader allocates its memory itself, so that a callback finds it without reference counting.
struct ReplyBuilder {
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
    mutating func takeReply() -> RedisValue? {
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
    mutating func open(count: Int) -> Bool {
        guard count > 0 else { return self.add(.array([])) }
        guard self.admit(count) else { return false }
        self.parts.append(.array(count))
        self.missing.append(count)
        return true
    }

    /// Adds a text.
    mutating func add(text: UnsafeRawBufferPointer) -> Bool {
        if self.bytes.capacity == 0 { self.bytes.reserveCapacity(max(text.count, Self.usualLength)) }
        let start = self.bytes.writerIndex
        unsafe self.bytes.writeBytes(text)
        self.parts.append(.text(start..<self.bytes.writerIndex))
        return self.close()
    }

    /// Adds anything else that is not an array with elements.
    mutating func add(_ value: RedisValue) -> Bool {
        self.parts.append(.value(value))
        return self.close()
    }

    /// Counts an element that is complete, and with it the arrays that it completes.
    private mutating func close() -> Bool {
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

    private mutating func admit(_ count: Int) -> Bool {
        guard count <= self.elementLimit - self.elements else {
            self.refusal = "more than \(self.elementLimit) elements"
            return false
        }
        self.elements += count
        return true
    }
}
