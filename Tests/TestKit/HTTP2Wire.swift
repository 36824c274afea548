import NIOCore
public import NIOHPACK

/// An HTTP/2 connection that sends any frames unchanged, even invalid ones, and returns those that arrive.
///
/// Source: RFC 9113 §4.1, §6
public final class HTTP2Wire {
    /// A frame as received.
    public struct Frame {
        public let type: UInt8
        public let flags: UInt8
        public let stream: UInt32
        public let payload: [UInt8]
        /// The error code of a GOAWAY or RST_STREAM frame.
        public var errorCode: UInt32 {
            let bytes = self.type == HTTP2Wire.goAway ? self.payload.dropFirst(4) : self.payload[...]
            return bytes.prefix(4).reduce(0) { $0 << 8 | UInt32($1) }
        }
        /// The last stream that a GOAWAY frame names.
        public var lastStream: UInt32 { self.payload.prefix(4).reduce(0) { $0 << 8 | UInt32($1) } }
    }

    /// The answer on a stream.
    public struct Response {
        public let status: Int
        public let headers: HPACKHeaders
        public let body: [UInt8]
        public var text: String { String(decoding: self.body, as: UTF8.self) }
    }

    public static let data: UInt8 = 0, headers: UInt8 = 1, reset: UInt8 = 3, settings: UInt8 = 4, ping: UInt8 = 6
    public static let goAway: UInt8 = 7, windowUpdate: UInt8 = 8, continuation: UInt8 = 9
    public static let endStream: UInt8 = 1, endHeaders: UInt8 = 4, ack: UInt8 = 1

    public let connection: RawConnection
    private var encoder = HPACKEncoder(allocator: ByteBufferAllocator())
    private var decoder = HPACKDecoder(allocator: ByteBufferAllocator(), maxDynamicTableSize: 4096)
    /// The settings that the server announced.
    public private(set) var announced: [UInt16: UInt32] = [:]
    /// The headers that have arrived and that no caller has requested yet, by stream.
    private var heads: [UInt32: HPACKHeaders] = [:]
    /// The connection's send window, according to the frames read so far. Source: RFC 9113 §6.9.2
    private var room = 65_535
    private var bodies: [UInt32: [UInt8]] = [:]

    public init(_ connection: RawConnection) { self.connection = connection }

    public static func bytes(_ type: UInt8, flags: UInt8 = 0, stream: UInt32 = 0, _ payload: [UInt8] = []) -> [UInt8] {
        var frame = ByteBuffer(integer: UInt32(payload.count) << 8 | UInt32(type))
        frame.writeInteger(flags)
        frame.writeInteger(stream)
        frame.writeBytes(payload)
        return Array(frame.readableBytesView)
    }

    /// Sends preface and settings, and acknowledges the server's settings.
    /// - Parameter streamWindow: the initial window of each stream; the connection's window is 16 MB.
    public func start(streamWindow: UInt32 = 1 << 24) async throws {
        var hello = ByteBuffer(string: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        let window = Array(ByteBuffer(integer: streamWindow).readableBytesView)
        hello.writeBytes(Self.bytes(Self.settings, [0, 4] + window))
        hello.writeBytes(Self.bytes(Self.windowUpdate, [0, 255, 0, 0]))
        try await self.connection.send(Array(hello.readableBytesView))
        while self.announced.isEmpty { _ = try await self.frame(isSettings: true) }
    }

    public func block(_ fields: [(String, String)]) throws -> [UInt8] {
        var buffer = ByteBuffer()
        try self.encoder.encode(headers: HPACKHeaders(fields), to: &buffer)
        return Array(buffer.readableBytesView)
    }

    public static func fields(_ method: String, _ path: String, token: String? = nil, _ more: [(String, String)] = [])
        -> [(
            String, String
        )]
    {
        [(":method", method), (":scheme", "https"), (":authority", "localhost"), (":path", path)]
            + (token.map { [("authorization", "AppleOrder \($0)")] } ?? []) + more
    }

    public func request(_ stream: UInt32, _ fields: [(String, String)], body: [UInt8]? = nil) throws -> [UInt8] {
        let flags = Self.endHeaders | (body == nil ? Self.endStream : 0)
        var bytes = Self.bytes(Self.headers, flags: flags, stream: stream, try self.block(fields))
        if let body {
            let parts = stride(from: 0, to: max(body.count, 1), by: 16_384).map {
                Array(body[min($0, body.count)..<min($0 + 16_384, body.count)])
            }
            for (index, part) in parts.enumerated() {
                bytes += Self.bytes(
                    Self.data, flags: index == parts.count - 1 ? Self.endStream : 0, stream: stream, part)
            }
        }
        return bytes
    }

    /// Returns the next frame that is not SETTINGS; with `isSettings`, it may be SETTINGS too.
    public func frame(isSettings: Bool = false) async throws -> Frame {
        while true {
            let head = try await self.connection.bytes(9)
            let count = Int(head[0]) << 16 | Int(head[1]) << 8 | Int(head[2])
            let stream = head[5...8].reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
            let frame = Frame(
                type: head[3], flags: head[4], stream: stream, payload: try await self.connection.bytes(count))
            if frame.type == Self.settings, frame.flags & Self.ack == 0 {
                for start in stride(from: 0, to: frame.payload.count - 5, by: 6) {
                    let entry = frame.payload[start..<start + 6]
                    let key = entry.prefix(2).reduce(UInt16(0)) { $0 << 8 | UInt16($1) }
                    self.announced[key] = entry.dropFirst(2).reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
                }
                try await self.connection.send(Self.bytes(Self.settings, flags: Self.ack))
                if isSettings { return frame }
            } else if frame.type != Self.settings {
                if frame.type == Self.windowUpdate, stream == 0 {
                    self.room += frame.payload.reduce(0) { $0 << 8 | Int($1) }
                }
                return frame
            }
        }
    }

    /// Returns the next frame of a type, discarding others.
    public func frame(_ type: UInt8) async throws -> Frame {
        while true {
            let frame = try await self.frame()
            if frame.type == type { return frame }
        }
    }

    /// Returns the answer on a stream; parts of other streams' answers are kept.
    public func response(_ stream: UInt32) async throws -> Response {
        while true {
            let frame = try await self.frame()
            switch frame.type {
            case Self.headers:
                var buffer = ByteBuffer(bytes: frame.payload)
                self.heads[frame.stream] = try self.decoder.decodeHeaders(from: &buffer)
            case Self.data: self.bodies[frame.stream, default: []] += frame.payload
            case Self.reset where frame.stream == stream:
                throw RawConnectionFailure(description: "stream \(stream) was reset: \(frame.errorCode)")
            case Self.goAway: throw RawConnectionFailure(description: "GOAWAY \(frame.errorCode)")
            default: break
            }
            if frame.type <= Self.headers, frame.stream == stream, frame.flags & Self.endStream != 0 {
                let head = self.heads.removeValue(forKey: stream) ?? [:]
                return Response(
                    status: Int(head.first(name: ":status") ?? "") ?? 0, headers: head,
                    body: self.bodies.removeValue(forKey: stream) ?? [])
            }
        }
    }

    /// Sends a body in parts, each as soon as the connection's window allows.
    public func send(body: Int, of byte: UInt8, on stream: UInt32, isComplete: Bool) async throws {
        var rest = body
        while rest > 0 {
            let count = min(rest, 16_000)
            rest -= count
            let flags = isComplete && rest == 0 ? Self.endStream : 0
            let part = [UInt8](repeating: byte, count: count)
            try await self.connection.send(Self.bytes(Self.data, flags: flags, stream: stream, part))
            self.room -= count
            while self.room < 16_000, rest > 0 || !isComplete { _ = try await self.frame(Self.windowUpdate) }
        }
    }

    public func exchange(_ stream: UInt32, _ fields: [(String, String)], body: [UInt8]? = nil) async throws -> Response
    {
        try await self.connection.send(try self.request(stream, fields, body: body))
        return try await self.response(stream)
    }
}

/// An event that occurred instead of an answer.
public struct RawConnectionFailure: Error, CustomStringConvertible {
    public let description: String

    public init(description: String) { self.description = description }
}
