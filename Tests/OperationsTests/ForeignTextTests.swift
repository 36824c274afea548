import Testing

@testable import Operations

@Suite struct ForeignTextTests {
    @Test func messagesAreMadeHarmlessAndShort() {
        #expect(ForeignText.harmless("plain ü 漢字") == "plain ü 漢字")
        #expect(
            ForeignText.harmless("a\nb\r\nc\u{1B}[31md\u{0}\u{85}\u{2028}\u{2029}\u{202E}e") == "a b  c [31md     e")
        #expect(ForeignText.harmless(String(repeating: "x ", count: 600)).count == 500)
        let marks = ForeignText.harmless("e" + String(repeating: "\u{301}", count: 60_000))
        #expect(marks.unicodeScalars.count == 500, "one character may have any number of scalars")
    }

    @Test(arguments: [
        ("1a2b3c4d5e6f7a8b", "…"), ("1a2b3c4d5e6f7a8", "1a2b3c4d5e6f7a8"), ("deadbeefdeadbeef", "…"),
        ("id=550E8400-E29B-41D4-A716-446655440000.", "id=…."), ("dGhlIHRva2VuIG9mIGl0MQ==", "…=="),
        ("Authorization: AppleOrder short", "Authorization: AppleOrder …"),
        ("APPLEORDER s3cret, next", "APPLEORDER …, next"),
        ("(for device ab12, order type order.com.example.shop)", "(for device …, order type order.com.example.shop)"),
        ("device identifier: \"x 1\"", "device identifier: \"… 1\""), ("GET /v1/devices/ab/registrations", "GET …"),
        ("GET v1 devices/ab failed", "GET v1 devices/… failed"),
        ("deviceLibraryIdentifier=ab&x", "deviceLibraryIdentifier=…"),
        ("NSURLErrorDomain error -1009", "NSURLErrorDomain error -1009"), ("device", "device"), ("", ""),
        ("PKOrderWebServiceRegisterDeviceTask failed", "PKOrderWebServiceRegisterDeviceTask failed"),
        ("status 503 after 12.5 s", "status 503 after 12.5 s"),
    ]) func secretsAndDeviceIdentifiersAreRedacted(message: String, shown: String) {
        #expect(ForeignText.harmless(message) == shown)
    }
}
