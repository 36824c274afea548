import Testing

@testable import APNS
@testable import HTTP2

@Suite struct PushAnswerTests {
    private func answer(_ body: String, status: Int = 410) -> PushAnswer {
        PushAnswer(status: status, headers: [HTTP2Header(name: "apns-id", value: "id")], body: Array(body.utf8))
    }

    @Test func reasonAndTimestampAreRead() {
        let read = self.answer(#"{"reason":"Unregistered","timestamp":1700000000123}"#)
        #expect(
            read
                == PushAnswer(
                    status: 410, reason: "Unregistered", timestampMilliseconds: 1_700_000_000_123, apnsID: "id"))
    }

    @Test(arguments: [
        "", "{", "[]", "null", "7", "<html>", #"{"reason":7,"timestamp":"x"}"#, #"{"timestamp":1e400}"#, "\u{0}",
        #"{"timestamp":99999999999999999999}"#, #"{"timestamp":1.5}"#,
    ])
    func anUnreadableBodyLeavesOnlyTheStatus(_ body: String) {
        let read = self.answer(body)
        #expect(read.status == 410)
        #expect(read.reason == nil)
        #expect(read.timestampMilliseconds == nil)
    }

    @Test(
        arguments: [
            ("0", 0), ("900", 900), ("86400", 86_400), ("86401", 86_400), ("99999999999999999999999", 86_400),
            ("", nil),
            ("-1", nil), ("+1", nil), ("1.5", nil), ("Fri, 31 Dec 1999 23:59:59 GMT", nil), ("1 ", nil),
        ] as [(String, Int?)])
    func retryAfterIsReadAsSecondsAndBounded(_ value: String, _ seconds: Int?) {
        let headers = [HTTP2Header(name: "retry-after", value: value)]
        #expect(PushAnswer(status: 503, headers: headers, body: []).retryAfterSeconds == seconds)
    }

    @Test func aReasonIsCutTo64Characters() {
        #expect(self.answer(#"{"reason":"\#(String(repeating: "x", count: 3000))"}"#).reason?.count == 64)
    }
}
