public import NIOCore

/// One argument of a command. Redis sees bytes; the cases save copies and conversions.
public enum RedisArgument: Hashable, Sendable, ExpressibleByStringLiteral {
    case string(String)
    case bytes([UInt8])
    case buffer(ByteBuffer)
    case integer(Int64)
    /// Several arguments together.
    case encoded(RedisEncodedArguments)
    /// Not an argument: as the last one of a command it names the command's destination in a cluster.
    case place(RedisPlace)

    public init(stringLiteral value: String) { self = .string(value) }
}

/// Arguments common to many commands, encoded once.
public struct RedisEncodedArguments: Hashable, Sendable {
    let count: Int
    let bytes: ByteBuffer

    public init(_ arguments: [RedisArgument]) {
        var bytes = ByteBuffer()
        for argument in arguments { bytes.write(argument) }
        self.bytes = bytes
        self.count = arguments.reduce(0) { $0 + $1.count }
    }
}

/// One command with its arguments: `RedisCommand("HSET", .string(key), "version", .integer(7))`.
///
/// Not for commands that change the way the server answers on the connection (SUBSCRIBE, MONITOR, HELLO, QUIT, CLIENT
/// REPLY) nor for blocking ones (BLPOP, WAIT): the connection is shared and answers are matched by their order.
public struct RedisCommand: Hashable, Sendable {
    /// Name and arguments.
    public let arguments: [RedisArgument]

    /// - Parameter arguments: name and arguments; at least the name, because Redis does not answer an empty command.
    public init(_ arguments: RedisArgument...) { self.init(arguments) }

    /// - Parameter arguments: name and arguments; at least the name, because Redis does not answer an empty command.
    public init(_ arguments: [RedisArgument]) {
        precondition(!arguments.isEmpty, "a command has a name")
        self.arguments = arguments
    }
}

extension RedisCommand {
    /// Its name, for metrics; nil for one that is not named by text.
    var operation: String? {
        guard case .string(let name)? = self.arguments.first else { return nil }
        return name
    }

    /// An upper bound of the encoded length, for reserving and for the limit on waiting bytes.
    var encodedLengthBound: Int { self.arguments.reduce(RedisArgument.headBound) { $0 + $1.encodedLengthBound } }
}

extension RedisArgument {
    /// Type, digits of any length, and both line ends.
    static let headBound = 24
    /// An upper bound of the bytes that it takes in a command.
    var encodedLengthBound: Int { self.lengthBound + Self.headBound }

    /// An upper bound of the payload bytes.
    fileprivate var lengthBound: Int {
        switch self {
        case .string(let text): text.utf8.count
        case .bytes(let bytes): bytes.count
        case .buffer(let buffer): buffer.readableBytes
        case .integer: 20
        case .encoded(let arguments): arguments.bytes.readableBytes
        case .place: 0
        }
    }

    /// The number of arguments that it encodes.
    fileprivate var count: Int {
        switch self {
        case .string, .bytes, .buffer, .integer: 1
        case .encoded(let arguments): arguments.count
        case .place: 0
        }
    }
}

extension ByteBuffer {
    /// Appends a command as an array of bulk strings.
    ///
    /// Source: Redis serialization protocol specification, "Sending commands to a Redis server".
    mutating func write(_ command: RedisCommand) {
        unsafe self.writeWithUnsafeMutableBytes(minimumWritableBytes: command.encodedLengthBound) { room in
            var output = unsafe ArgumentOutput(room)
            output.appendHead(UInt8(ascii: "*"), command.arguments.reduce(0) { $0 + $1.count })
            for argument in command.arguments { output.append(argument) }
            return output.count
        }
    }

    fileprivate mutating func write(_ argument: RedisArgument) {
        unsafe self.writeWithUnsafeMutableBytes(minimumWritableBytes: argument.encodedLengthBound) { room in
            var output = unsafe ArgumentOutput(room)
            output.append(argument)
            return output.count
        }
    }
}

/// Writes arguments in Redis's form into memory that has room for all of them.
///
/// Borrows the memory during one call. Unsafe because this runs some forty times for each order, and a buffer that
/// checks its capacity at each write takes three times as long; the room is `encodedLengthBound`, reserved in advance.
@safe
private struct ArgumentOutput: ~Copyable {
    private let start: UnsafeMutableRawPointer?
    private(set) var count = 0

    init(_ room: UnsafeMutableRawBufferPointer) { unsafe self.start = room.baseAddress }

    mutating func append(_ argument: RedisArgument) {
        switch argument {
        case .string(let text):
            let bytes = text.utf8.span
            unsafe bytes.withUnsafeBytes { unsafe self.appendPayload($0) }
        case .bytes(let bytes): unsafe bytes.withUnsafeBytes { unsafe self.appendPayload($0) }
        case .buffer(let buffer): unsafe buffer.withUnsafeReadableBytes { unsafe self.appendPayload($0) }
        case .integer(let value):
            let text = String(value)
            let bytes = text.utf8.span
            unsafe bytes.withUnsafeBytes { unsafe self.appendPayload($0) }
        case .encoded(let arguments): unsafe arguments.bytes.withUnsafeReadableBytes { unsafe self.copy($0) }
        case .place: return
        }
    }

    private mutating func appendPayload(_ bytes: UnsafeRawBufferPointer) {
        self.appendHead(UInt8(ascii: "$"), bytes.count)
        unsafe self.copy(bytes)
        self.put(0x0A0D, length: 2)
    }

    /// Appends a type byte, a count and the line end.
    mutating func appendHead(_ type: UInt8, _ count: Int) {
        guard count < 100_000 else {
            self.put(UInt64(type), length: 1)
            for digit in String(count).utf8 { self.put(UInt64(digit), length: 1) }
            self.put(0x0A0D, length: 2)
            return
        }
        // Built from its end, first byte lowest: line end, digits, type.
        var word: UInt64 = 0x0A0D
        var length = 2
        var rest = UInt64(count)
        repeat {
            word = word << 8 | (0x30 + rest % 10)
            rest /= 10
            length += 1
        } while rest > 0
        self.put(word << 8 | UInt64(type), length: length + 1)
    }

    /// Writes the lowest bytes of a word.
    @inline(__always)
    private mutating func put(_ word: UInt64, length: Int) {
        var rest = word
        for _ in 0..<length {
            let byte = UInt8(truncatingIfNeeded: rest)
            unsafe self.start?.storeBytes(of: byte, toByteOffset: self.count, as: UInt8.self)
            self.count += 1
            rest >>= 8
        }
    }

    @inline(__always)
    private mutating func copy(_ bytes: UnsafeRawBufferPointer) {
        if let start = unsafe self.start, let source = bytes.baseAddress {
            unsafe (start + self.count).copyMemory(from: source, byteCount: bytes.count)
        }
        self.count += bytes.count
    }
}

/// The destination, in a cluster, of a command that has no key.
public enum RedisPlace: Hashable, Sendable {
    /// To the master that serves a key.
    case key(String)
    /// To a master of `RedisTopology`.
    case master(RedisMaster)
}

/// A master of a cluster.
public struct RedisMaster: Hashable, Sendable, CustomStringConvertible {
    let address: NodeAddress

    init(_ address: NodeAddress) { self.address = address }

    /// `host:port`.
    public var description: String { self.address.description }
}
