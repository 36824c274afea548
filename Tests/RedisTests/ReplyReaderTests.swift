import NIOCore
import TestKit
import Testing

@testable import Redis

@Suite struct ReplyReaderTests {
    static let wire =
        "+OK\r\n-ERR no\r\n:-42\r\n$5\r\nhe\r\nl\r\n$0\r\n\r\n$-1\r\n*-1\r\n*0\r\n"
        + "*3\r\n:1\r\n*2\r\n$1\r\na\r\n*0\r\n+x\r\n:7\r\n"
    static let replies: [RedisValue] = [
        .status("OK"), .error("ERR no"), .integer(-42), .string(ByteBuffer(string: "he\r\nl")), .string(ByteBuffer()),
        .null, .null, .array([]),
        .array([.integer(1), .array([.string(ByteBuffer(string: "a")), .array([])]), .status("x")]), .integer(7),
    ]

    private func decode(_ slices: [Substring], limits: ReplyReader.Limits = .init()) throws(RedisError) -> [RedisValue]
    {
        var reader = try ReplyReader(limits: limits)
        var replies: [RedisValue] = []
        for slice in slices {
            reader.feed(ByteBuffer(substring: slice))
            while let reply = try reader.next() { replies.append(reply) }
        }
        return replies
    }

    @Test func decodingIsIndependentOfChunkBoundaries() throws {
        let wire = Self.wire
        #expect(try self.decode([wire[...]]) == Self.replies)
        #expect(try self.decode(wire.utf8.indices.map { wire.utf8[$0...$0] }.map(Substring.init)) == Self.replies)
        for first in wire.utf8.indices {
            for second in wire.utf8.indices where second > first {
                let slices = [wire.utf8[..<first], wire.utf8[first..<second], wire.utf8[second...]]
                #expect(try self.decode(slices.map(Substring.init)) == Self.replies)
            }
        }
    }

    @Test func aTruncatedStreamYieldsOnlyCompleteReplies() throws {
        let wire = Self.wire
        for end in wire.utf8.indices {
            let replies = try self.decode([Substring(wire.utf8[..<end])])
            #expect(replies == Array(Self.replies.prefix(replies.count)))
            #expect(replies.count < Self.replies.count)
        }
    }

    @Test(arguments: [
        "HTTP/1.1 400 Bad Request\r\n", "%1\r\n+a\r\n+b\r\n", "_\r\n", "$x\r\n", "$-2\r\n", "*-2\r\n", ":\r\n",
        ":1x\r\n",
        "*99999999999999999999\r\n", "$99999999999999999999\r\n", ":9223372036854775808\r\n", "\r\n", "\0\0\0\0",
        "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", "*2147483647\r\n:1\r\n", "*1048577\r\n",
    ])
    func invalidRESP2IsAPermanentProtocolError(garbage: String) throws {
        var reader = try ReplyReader()
        reader.feed(ByteBuffer(string: "+OK\r\n" + garbage))
        #expect(try reader.next() == .status("OK"))
        for _ in 0..<2 {
            let error = #expect(throws: RedisError.self) { _ = try next(&reader) }
            #expect(error?.code == .protocol)
            reader.feed(ByteBuffer(string: "+OK\r\n"))
        }
    }

    @Test func randomBytesNeverTrap() throws {
        var generator = SeededGenerator(seed: 7)
        let alphabet = Array("+-:$*0123456789\r\n\r\n\r\nab".utf8)
        for _ in 0..<20_000 {
            var reader = try ReplyReader(limits: .init(bytes: 4096, elements: 1000))
            for _ in 0..<3 {
                let length = Int.random(in: 0..<40, using: &generator)
                reader.feed(ByteBuffer(bytes: (0..<length).map { _ in alphabet.randomElement(using: &generator)! }))
                do { while try next(&reader) != nil {} } catch { break }
            }
        }
    }

    @Test func aReplyLongerThanTheLimitIsRefusedBeforeItIsComplete() throws {
        let limits = ReplyReader.Limits(bytes: 100_000, elements: 10)
        let fits = String(repeating: "x", count: 90_000)
        #expect(try self.decode(["$90000\r\n\(fits)\r\n$90000\r\n\(fits)\r\n"], limits: limits).count == 2)
        #expect(throws: RedisError(.protocol, "reading a reply: longer than 100000 bytes")) {
            _ = try self.decode(["$9223372036854775807\r\n\(fits)\(fits)"], limits: limits)
        }
        #expect(throws: RedisError(.protocol, "reading a reply: more than 10 elements")) {
            _ = try self.decode(["*2\r\n*9\r\n"], limits: limits)
        }
    }

    @Test func aLargeReplyAndManySmallRepliesAfterItAreDecoded() throws {
        let large = String(repeating: "0123456789", count: 300_000)
        let replies = try self.decode(["$3000000\r\n\(large)\r\n" + String(repeating: ":1\r\n", count: 50_000)])
        #expect(replies.count == 50_001)
        #expect(replies.first?.text == large)
    }
}

/// A function because a macro's closure cannot take a noncopyable variable.
private func next(_ reader: inout ReplyReader) throws(RedisError) -> RedisValue? { try reader.next() }
