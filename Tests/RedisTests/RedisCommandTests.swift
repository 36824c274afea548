import NIOCore
import Testing

@testable import Redis

@Suite struct RedisCommandTests {
    @Test func aCommandIsEncodedAsAnArrayOfBulkStrings() {
        var buffer = ByteBuffer()
        buffer.write(
            RedisCommand("SET", .bytes([0, 13, 10, 255]), .integer(.min), .buffer(ByteBuffer(string: "é")), ""))
        var expected = ByteBuffer(string: "*5\r\n$3\r\nSET\r\n$4\r\n")
        expected.writeBytes([0, 13, 10, 255])
        expected.writeString("\r\n$20\r\n-9223372036854775808\r\n$2\r\né\r\n$0\r\n\r\n")
        #expect(buffer == expected)
    }

    @Test(arguments: [0, 1, 9, 10, 99, 100, 9_999, 10_000, 99_999, 100_000, 1_234_567])
    func lengthsAreWrittenInDecimal(length: Int) {
        var buffer = ByteBuffer()
        let command = RedisCommand(.bytes([UInt8](repeating: 65, count: length)))
        buffer.write(command)
        #expect(buffer.readableBytes <= command.encodedLengthBound)
        #expect(
            buffer.getString(at: 0, length: buffer.readableBytes)
                == "*1\r\n$\(length)\r\n\(String(repeating: "A", count: length))\r\n")
    }
}

@Suite struct RedisURLTests {
    @Test func aURLIsParsedIntoItsComponents() throws {
        let url = try RedisURL("rediss://us%40er:p%3A%2fw:x@[::1]:7000/3")
        #expect(url.isEncrypted)
        #expect(url.user == "us@er")
        #expect(url.password == "p:/w:x")
        #expect(url.addresses == [NodeAddress(host: "::1", port: 7000)])
        #expect(url.database == 3)
        let short = try RedisURL("redis://cache.example")
        #expect(!short.isEncrypted)
        #expect(short.user == nil)
        #expect(short.password == nil)
        #expect(short.addresses == [NodeAddress(host: "cache.example", port: 6379)])
        #expect(short.database == 0)
        #expect(short.masterName == nil)
        #expect(try RedisURL("redis://:pw@h/").password == "pw")
        #expect(try RedisURL("redis://:p@ss@h").password == "p@ss")
    }

    @Test func aURLWithSeveralAddressesNamesClusterNodesOrSentinels() throws {
        let cluster = try RedisURL("redis://u:p@a:1,b,[::1]:3")
        #expect(cluster.addresses.map(\.description) == ["a:1", "b:6379", "[::1]:3"])
        #expect(cluster.masterName == nil)
        #expect(cluster.user == "u")
        #expect(try RedisConfiguration(url: "redis://a:1,b:2").isCluster)
        #expect(try !RedisConfiguration(url: "redis://a:1").isCluster)
        let sentinels = try RedisURL("rediss+sentinel://u:p@a,b:2/the%20master/3")
        #expect(sentinels.addresses.map(\.description) == ["a:26379", "b:2"])
        #expect(sentinels.masterName == "the master")
        #expect(sentinels.database == 3)
        #expect(sentinels.isEncrypted)
        #expect(try RedisURL("redis+sentinel://a/m").database == 0)
        #expect(try !RedisConfiguration(url: "redis+sentinel://a,b/m").isCluster)
    }

    @Test(arguments: [
        ("redis://a,b/1", "database 0 only"), ("redis://a,", "host is missing"), ("redis+sentinel://a", "name"),
        ("redis+sentinel://a//1", "name"), ("redis+sentinel://a/m/x", "database"), ("redis+sentinel:/a/m", "+sentinel"),
        ("http://h", "redis://"), ("redis://", "host is missing"), ("redis://:secret@", "host is missing"),
        ("redis://:secret@h:0", "from 1 to 65535"), ("redis://:secret@h:x", "\"x\""), ("redis://h:70000", "65535"),
        ("redis://h:", "65535"), ("redis://h:+1", "65535"), ("redis://::1", "brackets"), ("redis://[::1", "]"),
        ("redis://[h]", "IPv6"), ("redis://h/x", "database"), ("redis://h/1/2", "database"),
        ("redis://h/-1", "database"),
        ("redis://h/99999999999", "database"), ("redis://h?db=1", "query"), ("redis://:secret%zz@h", "%25"),
        ("redis://:secret%f@h", "%25"), ("redis://:secret%ff@h", "%25"), ("redis://:secret/x@h", "%2F"),
        ("redis://h h", "h h"), ("redis://secret@h", "without a password"),
    ])
    func aBadURLIsRefusedWithItsReasonAndWithoutItsPassword(url: String, reason: String) throws {
        let error = #expect(throws: RedisError.self) { _ = try RedisConfiguration(url: url) }
        #expect(error?.code == .configuration)
        #expect(error?.message.contains(reason) == true, "\(error?.message ?? "")")
        #expect(error?.message.contains("secret") == false)
    }

    @Test func passwordAndCAFileMustMatchTheURL() throws {
        #expect(
            try RedisConfiguration(url: "redis://u@h", password: "p").authentication == RedisCommand("AUTH", "u", "p"))
        #expect(throws: RedisError.self) { _ = try RedisConfiguration(url: "redis://:a@h", password: "b") }
        #expect(throws: RedisError.self) { _ = try RedisConfiguration(url: "redis://h", caFile: "/x.pem") }
        let error = #expect(throws: RedisError.self) {
            _ = try RedisConfiguration(url: "rediss://h", caFile: "/no.pem")
        }
        #expect(error?.message.contains("/no.pem") == true)
    }

    @Test func thePauseBeforeConnectingDoublesFromFiftyMillisecondsToTwoSeconds() {
        #expect(RedisLink.pause(attempt: 1, jitter: 1) == .milliseconds(50))
        #expect(RedisLink.pause(attempt: 1, jitter: 0) == .milliseconds(25))
        #expect(RedisLink.pause(attempt: 3, jitter: 1) == .milliseconds(200))
        #expect(RedisLink.pause(attempt: 7, jitter: 1) == .seconds(2))
        #expect(RedisLink.pause(attempt: .max, jitter: 0) == .seconds(1))
    }
}
