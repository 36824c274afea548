/// The reason why a session cannot continue, or a request cannot be submitted to it.
///
/// Two errors are equal if their codes are equal.
public struct HTTP2Error: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kind of error, by the action it requires.
    public enum Code: Hashable, Sendable {
        /// nghttp2 could not allocate memory, or refused a call.
        case library
        /// The peer's bytes are not HTTP/2, or it floods us; the connection is lost.
        case connection
        /// No stream identifier is left: a new connection is needed.
        case noNewStreams
    }

    public let code: Code
    public let message: String

    public init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    public var description: String { self.message }
    public static func == (left: Self, right: Self) -> Bool { left.code == right.code }
    public func hash(into hasher: inout Hasher) { hasher.combine(self.code) }
}

/// The reason for ending a stream or a connection, as carried by RST_STREAM and GOAWAY.
///
/// Source: RFC 9113 §7
public struct HTTP2ErrorCode: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
    public let rawValue: UInt32

    public init(rawValue: UInt32) { self.rawValue = rawValue }

    /// The stream or connection ended as intended.
    public static let noError = Self(rawValue: 0x0)
    /// The sender of the frame saw a violation of the protocol.
    public static let protocolError = Self(rawValue: 0x1)
    /// The request was not processed at all and may be sent again.
    public static let refusedStream = Self(rawValue: 0x7)
    /// The answer is no longer needed.
    public static let cancel = Self(rawValue: 0x8)

    public var description: String {
        let index = Int(self.rawValue)
        return Self.names.indices.contains(index) ? Self.names[index] : "HTTP/2 error \(self.rawValue)"
    }

    private static let names = [
        "NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED",
        "FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM",
        "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
    ]
}
