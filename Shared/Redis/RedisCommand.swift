public import NIOCore

/// One argument of a command. Redis sees bytes; the cases save copies and conversions.
public enum RedisArgument: Hashable, Sendable, ExpressibleByStringLiteral {
    case string(String)
    case bytes([UInt8])
    case buffer(ByteBuffer)
    case integer(Int64)
    /// Several arguments at once.
    case encoded(RedisEncodedArguments)
    /// No argument: as the last one of a command it says where in a cluster the command goes.
    case place(RedisPlace)

    public init(stringLiteral value: String) { self = .string(value) }
}

/// Arguments that many commands have in common, put into Redis's form once.
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
/// Not for commands that change how the server answers on the connection (SUBSCRIBE, MONITOR, HELLO, QUIT, CLIENT
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
    /// An upper bound of the encoded length, for reserving and for the bound on waiting bytes.
    var encodedLengthBound: Int { self.arguments.reduce(16) { $0 + $1.lengthBound + 16 } }
}

extension RedisArgument {
    /// At least the number of payload bytes.
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

    /// For how many arguments it stands.
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
        self.writeHead(UInt8(ascii: "*"), command.arguments.reduce(0) { $0 + $1.count })
        for argument in command.arguments { self.write(argument) }
    }

    fileprivate mutating func write(_ argument: RedisArgument) {
        switch argument {
        case .string(let text):
            self.writeHead(UInt8(ascii: "$"), text.utf8.count)
            self.writeString(text)
        case .bytes(let bytes):
            self.writeHead(UInt8(ascii: "$"), bytes.count)
            self.writeBytes(bytes)
        case .buffer(let buffer):
            self.writeHead(UInt8(ascii: "$"), buffer.readableBytes)
            self.writeImmutableBuffer(buffer)
        case .integer(let value):
            let text = String(value)
            self.writeHead(UInt8(ascii: "$"), text.utf8.count)
            self.writeString(text)
        case .encoded(let arguments):
            self.writeImmutableBuffer(arguments.bytes)
            return
        case .place: return
        }
        self.writeInteger(0x0D0A, as: UInt16.self)
    }

    /// Appends a type byte, a count and the line end: in one write of a word when they fit into it, which they nearly
    /// always do; this runs for every argument of the hot path.
    private mutating func writeHead(_ type: UInt8, _ count: Int) {
        guard count < 100_000 else {
            self.writeInteger(type)
            self.writeString(String(count))
            self.writeInteger(0x0D0A, as: UInt16.self)
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
        word = word << 8 | UInt64(type)
        self.writeInteger(word, endianness: .little)
        self.moveWriterIndex(to: self.writerIndex - (8 - (length + 1)))
    }
}
