import NIOCore
import NIOHTTP1

/// Extracts the data of a chunked body as its bytes arrive.
///
/// Chunk extensions and trailers are validated and ignored; no endpoint needs them. Source: RFC 9112 §7.1
struct ChunkedDecoder {
    private enum State {
        /// Goes to `data`, or to `trailer` after the last chunk.
        case size
        /// With the number of bytes of the chunk still to come. Goes to `dataEnd`.
        case data(Int)
        /// Goes to `size`.
        case dataEnd
        /// Goes to `done` at the empty line.
        case trailer
        case done
    }

    /// Most bytes of a size line, and of all trailers together.
    static let lineLimit = 1024

    private var state = State.size
    private var trailerBytes = 0

    /// Moves the received data from `buffer` to `body`.
    ///
    /// - Returns: true if the body is complete. The rest of `buffer` then belongs to the next request.
    mutating func decode(
        _ buffer: inout ByteBuffer, into body: inout ByteBuffer, limit: Int
    ) throws(RequestFault) -> Bool {
        while true {
            switch self.state {
            case .size:
                guard let line = try Self.line(&buffer) else { return false }
                let size = try Self.size(line)
                guard size <= limit - body.readableBytes else { throw .tooLarge(limit) }
                self.state = size == 0 ? .trailer : .data(size)
            case .data(let missing):
                guard var part = buffer.readSlice(length: min(missing, buffer.readableBytes)) else { return false }
                let count = part.readableBytes
                body.writeBuffer(&part)
                guard count == missing else {
                    self.state = .data(missing - count)
                    return false
                }
                self.state = .dataEnd
            case .dataEnd:
                guard let end = buffer.readInteger(as: UInt16.self) else { return false }
                guard end == 0x0D0A else { throw .malformed("a chunk is longer than its size says") }
                self.state = .size
            case .trailer:
                guard let line = try Self.line(&buffer) else { return false }
                self.trailerBytes += line.readableBytes
                guard self.trailerBytes <= Self.lineLimit else { throw .malformed("the trailers are too long") }
                if line.readableBytes == 0 {
                    self.state = .done
                } else if !Self.isTrailer(line) {
                    throw .malformed("a trailer is not a field, or must come before the body")
                }
            case .done: return true
            }
        }
    }

    /// Removes the next line and its end, and returns the line; nil if the end has not arrived.
    private static func line(_ buffer: inout ByteBuffer) throws(RequestFault) -> ByteBuffer? {
        guard let index = buffer.readableBytesView.prefix(Self.lineLimit + 2).firstIndex(of: .lineFeed) else {
            guard buffer.readableBytes <= Self.lineLimit else { throw .malformed("a line of the body is too long") }
            return nil
        }
        let length = index - buffer.readerIndex
        guard length > 0, buffer.getInteger(at: index - 1, as: UInt8.self) == .carriageReturn else {
            throw .malformed("a line of the body does not end with CR LF")
        }
        let line = buffer.readSlice(length: length - 1)
        buffer.moveReaderIndex(forwardBy: 2)
        return line
    }

    /// Parses the number at the start of a size line.
    private static func size(_ line: ByteBuffer) throws(RequestFault) -> Int {
        let bytes = line.readableBytesView
        let digits = bytes.prefix { $0.hexadecimalValue != nil }
        guard (1...15).contains(digits.count), Self.areExtensions(bytes.dropFirst(digits.count)) else {
            throw .malformed("the size of a chunk must be a hexadecimal number")
        }
        return digits.reduce(0) { $0 << 4 | Int($1.hexadecimalValue ?? 0) }
    }

    /// True if the rest of a size line is empty or extensions: `;name`, `;name=token` or `;name="text"`, any number.
    ///
    /// Blanks around them are refused, as other servers do. Source: RFC 9112 §7.1.1
    private static func areExtensions(_ bytes: ByteBufferView) -> Bool {
        var rest = bytes
        while let first = rest.popFirst() {
            guard first == UInt8(ascii: ";"), Self.dropToken(&rest) else { return false }
            guard rest.first == UInt8(ascii: "=") else { continue }
            rest.removeFirst()
            guard rest.first == UInt8(ascii: "\"") ? Self.dropQuoted(&rest) : Self.dropToken(&rest) else {
                return false
            }
        }
        return true
    }

    /// Removes a token from the front; false if there is none.
    private static func dropToken(_ bytes: inout ByteBufferView) -> Bool {
        let rest = bytes.drop { $0.isTokenCharacter }
        defer { bytes = rest }
        return rest.count < bytes.count
    }

    /// Removes a quoted string from the front, where its first quote must be. Source: RFC 9110 §5.6.4
    private static func dropQuoted(_ bytes: inout ByteBufferView) -> Bool {
        bytes.removeFirst()
        while let byte = bytes.popFirst() {
            if byte == UInt8(ascii: "\"") { return true }
            guard byte.isFieldCharacter else { return false }
            if byte == UInt8(ascii: "\\") {
                guard let escaped = bytes.popFirst(), escaped.isFieldCharacter else { return false }
            }
        }
        return false
    }

    /// True if a line is a field that is allowed after a body: one about the message's end or its connection is not,
    /// since another reader could obey it. Source: RFC 9112 §5, RFC 9110 §6.5.1
    private static func isTrailer(_ line: ByteBuffer) -> Bool {
        let bytes = line.readableBytesView
        var rest = bytes
        guard Self.dropToken(&rest), rest.first == UInt8(ascii: ":") else { return false }
        let name = String(decoding: bytes.prefix(bytes.count - rest.count), as: UTF8.self).lowercased()
        return !Self.forbiddenTrailers.contains(name) && rest.allSatisfy { $0.isFieldCharacter }
    }

    private static let forbiddenTrailers: Set = [
        "connection", "content-length", "host", "proxy-connection", "transfer-encoding", "upgrade",
    ]
}

extension RequestFault {
    static func tooLarge(_ limit: Int) -> RequestFault {
        RequestFault(status: .payloadTooLarge, message: "the body may have \(limit) bytes at most")
    }
}
