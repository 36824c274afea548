import Glibc
import NIOCore
import NIOHTTP1

/// The head of an answer on an HTTP/1 connection.
struct ResponseHead {
    let isVersion11: Bool
    let keepsAlive: Bool

    /// Capacity for the head of a package's answer, so that it is written without growing.
    private static let usualLength = 512

    /// Makes the head's bytes.
    ///
    /// - Parameters:
    ///   - date: the present `HTTPDate`. A server that has a clock must send it (RFC 9110 §6.6.1).
    ///   - room: bytes that the caller will add.
    func bytes(of answer: Answer, date: String, room: Int, allocator: ByteBufferAllocator) -> ByteBuffer {
        var bytes = allocator.buffer(capacity: Self.usualLength + room)
        bytes.writeStaticString(self.isVersion11 ? "HTTP/1.1 " : "HTTP/1.0 ")
        bytes.writeDecimal(Int(answer.status.code))
        bytes.writeStaticString(" ")
        bytes.writeString(answer.status.reasonPhrase)
        for (name, value) in answer.headers {
            bytes.writeStaticString("\r\n")
            bytes.writeString(name)
            bytes.writeStaticString(": ")
            bytes.writeString(value)
        }
        bytes.writeStaticString("\r\ndate: ")
        bytes.writeString(date)
        // 204 and 304 have no body, and no length of one (RFC 9110 §8.6).
        if answer.status != .noContent && answer.status != .notModified {
            bytes.writeStaticString("\r\ncontent-length: ")
            bytes.writeDecimal(answer.contentLength)
        }
        if !self.keepsAlive {
            bytes.writeStaticString("\r\nconnection: close")
        } else if !self.isVersion11 {
            // A client of HTTP/1.0 that asked to keep the connection must be told that it may (RFC 9112 §C.2.2).
            bytes.writeStaticString("\r\nconnection: keep-alive")
        }
        bytes.writeStaticString("\r\n\r\n")
        return bytes
    }
}

extension ByteBuffer {
    /// - Parameter number: 0 or more.
    fileprivate mutating func writeDecimal(_ number: Int) {
        if number >= 10 { self.writeDecimal(number / 10) }
        self.writeInteger(0x30 + UInt8(number % 10))
    }
}

/// The text of the `Date` header, updated each second.
struct DateLine {
    private var second: Int64 = -1
    private var line = ""

    mutating func text() -> String {
        var now = timespec()
        unsafe clock_gettime(CLOCK_REALTIME_COARSE, &now)
        if Int64(now.tv_sec) != self.second {
            self.second = Int64(now.tv_sec)
            self.line = HTTPDate.format(epochSeconds: self.second)
        }
        return self.line
    }
}
