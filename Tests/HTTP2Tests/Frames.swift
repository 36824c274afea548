import NIOCore

/// HTTP/2 frames made and read independently, so that the session is not checked against itself.
///
/// Source: RFC 9113 §4.1, §6
struct Frame: Equatable {
    var type: UInt8
    var flags: UInt8
    var stream: UInt32
    var payload: [UInt8]

    static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)

    var bytes: [UInt8] {
        let length = UInt32(self.payload.count)
        return [UInt8(length >> 16 & 0xFF), UInt8(length >> 8 & 0xFF), UInt8(length & 0xFF), self.type, self.flags]
            + big(self.stream) + self.payload
    }

    /// Splits a session's output into frames, skipping the preface if it is present.
    static func read(_ bytes: [UInt8]) -> [Frame] {
        var rest = bytes.starts(with: Self.preface) ? bytes.dropFirst(Self.preface.count) : bytes[...]
        var frames: [Frame] = []
        while rest.count >= 9 {
            let head = Array(rest.prefix(9))
            let length = Int(head[0]) << 16 | Int(head[1]) << 8 | Int(head[2])
            let stream = UInt32(head[5] & 0x7F) << 24 | UInt32(head[6]) << 16 | UInt32(head[7]) << 8 | UInt32(head[8])
            rest = rest.dropFirst(9)
            frames.append(Frame(type: head[3], flags: head[4], stream: stream, payload: Array(rest.prefix(length))))
            rest = rest.dropFirst(length)
        }
        return frames
    }

    static func settings(maxConcurrentStreams: UInt32? = nil) -> Frame {
        Frame(type: 4, flags: 0, stream: 0, payload: maxConcurrentStreams.map { [0, 3] + big($0) } ?? [])
    }

    /// - Parameter fields: written as literals without indexing and without Huffman coding (RFC 7541 §6.2.2).
    static func headers(_ stream: UInt32, _ fields: [(String, String)], end: Bool = false) -> Frame {
        let block = fields.flatMap { name, value -> [UInt8] in
            [0, UInt8(name.utf8.count)] + Array(name.utf8) + [UInt8(value.utf8.count)] + Array(value.utf8)
        }
        return Frame(type: 1, flags: end ? 0x5 : 0x4, stream: stream, payload: block)
    }

    static func data(_ stream: UInt32, _ payload: [UInt8], end: Bool = false) -> Frame {
        Frame(type: 0, flags: end ? 1 : 0, stream: stream, payload: payload)
    }

    static func reset(_ stream: UInt32, _ code: UInt32) -> Frame {
        Frame(type: 3, flags: 0, stream: stream, payload: big(code))
    }

    static func goAway(last: UInt32, code: UInt32, debug: [UInt8]) -> Frame {
        Frame(type: 7, flags: 0, stream: 0, payload: big(last) + big(code) + debug)
    }

    static func ping(_ payload: [UInt8], acknowledged: Bool) -> Frame {
        Frame(type: 6, flags: acknowledged ? 1 : 0, stream: 0, payload: payload)
    }
}

private func big(_ number: UInt32) -> [UInt8] {
    [UInt8(number >> 24), UInt8(number >> 16 & 0xFF), UInt8(number >> 8 & 0xFF), UInt8(number & 0xFF)]
}
