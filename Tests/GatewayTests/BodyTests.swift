import Model
import NIOCore
import TestKit
import Testing

@testable import Gateway

@Suite struct BodyTests {
    func buffer(_ text: String) -> ByteBuffer { ByteBuffer(string: text) }

    @Test func aPushTokenIsTakenFromItsMember() throws {
        for body in [#"{"pushToken":"aBc123"}"#, #"{ "other": [1], "pushToken" : "aBc123", "more": null }"#] {
            #expect(try RegistrationEndpoints.pushToken(self.buffer(body)).rawValue == "aBc123")
        }
    }

    @Test(arguments: [
        "", "{", "[]", "null", #""aa""#, "{}", #"{"pushToken":null}"#, #"{"pushToken":12}"#, #"{"pushToken":""}"#,
        #"{"pushToken":"xyz"}"#, #"{"pushToken":"aa","pushToken":"bb"}"#, #"{"PushToken":"aa"}"#,
        #"{"pushToken":["aa"]}"#,
        #"{"pushToken":"aa"} x"#, #"{"pushToken":"\#(String(repeating: "a", count: 256))"}"#,
        String(repeating: "[", count: 10_000), "\u{FEFF}{}",
    ])
    func aBodyWithoutATokenIsRefusedWithAReason(body: String) {
        let error = #expect(throws: RegistrationEndpoints.BodyError.self) {
            _ = try RegistrationEndpoints.pushToken(self.buffer(body))
        }
        #expect(error?.message.isEmpty == false)
        #expect(error?.message.contains("xyz") == false, "a token is not repeated")
    }

    @Test func aBodyThatIsNotUTF8IsRefused() {
        #expect(throws: RegistrationEndpoints.BodyError.self) {
            _ = try RegistrationEndpoints.pushToken(ByteBuffer(bytes: [0x7B, 0xFF, 0x7D]))
        }
    }

    @Test func logsComeAsAnObjectOrABareArray() {
        #expect(LogEndpoint.messages(self.buffer(#"{"logs":["a","b"]}"#)) == ["a", "b"])
        #expect(LogEndpoint.messages(self.buffer(#"["a"]"#)) == ["a"])
        #expect(LogEndpoint.messages(self.buffer(#"{"logs":[]}"#)) == [])
        #expect(LogEndpoint.messages(self.buffer(#"{"logs":["a"],"x":1}"#)) == ["a"])
        for junk in ["", "{", "{}", "1", #""a""#, #"{"logs":"a"}"#, #"{"logs":[1]}"#, #"["a",null]"#, "null"] {
            #expect(LogEndpoint.messages(self.buffer(junk)) == nil, "\(junk)")
        }
    }
}

@Suite struct AssetCacheTests {
    func entry(_ bytes: Int) -> ByteBuffer { ByteBuffer(repeating: 7, count: bytes) }

    @Test func whatWasUsedLeastLatelyGoes() {
        let cache = AssetCache(limit: 100)
        cache.insert("a", self.entry(40))
        cache.insert("b", self.entry(40))
        #expect(cache.entries(["a"]).compactMap(\.self).count == 1)
        cache.insert("c", self.entry(40))
        #expect(cache.entries(["a", "b", "c"]).map { $0 != nil } == [true, false, true])
        cache.insert("d", self.entry(100))
        #expect(cache.entries(["a", "c", "d"]).map { $0 != nil } == [false, false, true])
    }

    @Test func whatIsLargerThanTheLimitIsNotKept() {
        let cache = AssetCache(limit: 100)
        cache.insert("a", self.entry(60))
        cache.insert("b", self.entry(101))
        #expect(cache.entries(["a", "b"]).map { $0 != nil } == [true, false])
        cache.insert("a", self.entry(60))
        cache.insert("e", self.entry(0))
        cache.insert("c", self.entry(40))
        #expect(cache.entries(["a", "c", "e", "none", "a"]).map { $0 != nil } == [true, true, true, false, true])
    }

    @Test func neverMoreThanTheLimitIsKept() {
        var random = SeededGenerator(seed: 5)
        let cache = AssetCache(limit: 1000)
        var sizes: [String: Int] = [:]
        for number in 0..<500 {
            let size = Int.random(in: 0...400, using: &random)
            sizes["\(number)"] = size
            cache.insert("\(number)", self.entry(size))
            let names = Array(sizes.keys)
            let kept = zip(names, cache.entries(names)).filter { $0.1 != nil }.map { sizes[$0.0] ?? 0 }
            #expect(kept.reduce(0, +) <= 1000)
            #expect(!cache.entries(["\(number)"]).contains { $0 == nil })
        }
    }
}
