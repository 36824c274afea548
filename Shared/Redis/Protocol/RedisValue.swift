public import NIOCore

/// One reply of Redis, as RESP2 distinguishes replies.
///
/// Source: Redis serialization protocol specification, RESP2.
public enum RedisValue: Hashable, Sendable {
    /// A bulk string: any bytes.
    case string(ByteBuffer)
    /// `:n`
    case integer(Int64)
    /// `*n` with its elements.
    case array([RedisValue])
    /// The null bulk string or the null array.
    case null
    /// `+OK` and the like.
    case status(String)
    /// `-ERR …`; an element of the results of a pipeline, thrown by `send`.
    case error(String)
}

extension RedisValue {
    /// The text of a bulk string or a status; invalid UTF-8 is replaced. Nil for other replies.
    public var text: String? {
        switch self {
        case .string(let buffer): String(buffer: buffer)
        case .status(let text): text
        case .integer, .array, .null, .error: nil
        }
    }

    /// The bytes of a bulk string, copied.
    public var bytes: [UInt8]? {
        guard case .string(let buffer) = self else { return nil }
        return Array(buffer.readableBytesView)
    }

    /// The bytes of a bulk string, not copied.
    public var buffer: ByteBuffer? {
        guard case .string(let buffer) = self else { return nil }
        return buffer
    }

    /// An integer reply, or a bulk string of decimal digits, the form in which Redis stores numbers.
    public var integer: Int64? {
        switch self {
        case .integer(let value): value
        case .string(let buffer): Int64(String(buffer: buffer))
        case .array, .null, .status, .error: nil
        }
    }

    /// The elements of an array.
    public var array: [RedisValue]? {
        guard case .array(let values) = self else { return nil }
        return values
    }

    /// True for the null reply: no such key, no such field.
    public var isNull: Bool { self == .null }

    /// The error of an error reply, as `send` throws it.
    public var serverError: RedisError? {
        guard case .error(let message) = self else { return nil }
        return RedisError(.server, message)
    }
}
