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
