import Foundation
import Testing

@testable import HTTPServer

@Suite struct HTTPDateTests {
    /// Sun, 06 Nov 1994 08:49:37 GMT. Source: RFC 9110 §5.6.7
    static let moment: Int64 = 784_111_777

    @Test(arguments: [
        "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994", "784111777",
        "784111777.5", "784111777.000000001", " Sun, 06 Nov 1994 08:49:37 GMT ", "Sun, 6 Nov 1994 08:49:37 GMT",
    ])
    func everyDateFormatIsParsed(text: String) { #expect(HTTPDate.parse(text) == Self.moment) }

    /// Source: RFC 9110 §5.6.7 (more than 50 years ahead means the most recent past year with the same digits)
    @Test func twoDigitYearsAreAtMostFiftyYearsAhead() {
        func year(_ digits: String, in current: Int64) -> Int64? {
            HTTPDate.parse("Sunday, 01-Jan-\(digits) 00:00:00 GMT", now: (current - 1970) * 31_556_952 + 15_000_000)
                .map { 1970 + ($0 + 86_400) / 31_556_952 }
        }
        #expect(year("94", in: 2026) == 1994)
        #expect(year("30", in: 2026) == 2030)
        #expect(year("76", in: 2026) == 2076)
        #expect(year("77", in: 2026) == 1977)
        #expect(year("26", in: 2026) == 2026)
        #expect(year("94", in: 2099) == 2094)
        #expect(year("00", in: 2099) == 2000)
        #expect(HTTPDate.parse("Sunday, 01-Jan-94 00:00:00 GMT", now: .min) == 757_382_400, "no clock is a trap")
        #expect(HTTPDate.parse("Sunday, 01-Jan-94 00:00:00 GMT", now: .max) == nil)
    }

    @Test(arguments: [
        "", " ", "yesterday", "0x2EBC", "1e9", "+1", "1.", ".5", "1.2.3", "1741190531000", "nan", "inf", "-inf",
        "1e300", "99999999999999999999", "Sun, 06 Nov 1994 08:49:37 PST",
        "Sun, 31 Feb 1994 08:49:37 GMT", "Sun, 06 Nov 1994 24:00:00 GMT", "Sun, 06 Nov 94 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37", "Sun, 06 nov 1994 08:49:37 GMT", "Sunday, 06-Nov-1994 08:49:37 GMT",
        "Sun Nov 6 1994",
        "Sunday, 06-Nov 08:49:37 GMT", "Sunday, --- 08:49:37 GMT", "Sun, +6 Nov 1994 08:49:37 GMT", "a b c d e f GMT",
        "Sun, 006 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 8:49:37 GMT", "ü ü ü ü ü GMT",
        "Sunday, 06-Nov-é 08:49:37 GMT",
    ])
    func anInvalidDateIsNil(text: String) { #expect(HTTPDate.parse(text) == nil) }

    @Test func theFormatIsIMFFixdate() {
        #expect(HTTPDate.format(epochSeconds: Self.moment) == "Sun, 06 Nov 1994 08:49:37 GMT")
        #expect(HTTPDate.format(epochSeconds: 0) == "Thu, 01 Jan 1970 00:00:00 GMT")
        #expect(HTTPDate.format(epochSeconds: .min) == "Thu, 01 Jan 1970 00:00:00 GMT")
        #expect(HTTPDate.format(epochSeconds: 951_782_400) == "Tue, 29 Feb 2000 00:00:00 GMT")
        #expect(HTTPDate.format(epochSeconds: 4_107_542_399) == "Sun, 28 Feb 2100 23:59:59 GMT")
        #expect(HTTPDate.format(epochSeconds: 4_107_542_400) == "Mon, 01 Mar 2100 00:00:00 GMT")
        #expect(HTTPDate.format(epochSeconds: .max).hasSuffix(" Dec 9999 23:59:59 GMT"))
    }

    /// Every third day from 1970 to 2106, against the C library's calendar.
    @Test func formattedDatesMatchTheCLibraryAndParseBack() {
        var seconds: Int64 = 86_399
        while seconds < 4_300_000_000 {
            let text = HTTPDate.format(epochSeconds: seconds)
            #expect(HTTPDate.parse(text) == seconds)
            var parts = unsafe tm()
            var time = time_t(seconds)
            _ = unsafe gmtime_r(&time, &parts)
            var buffer = [CChar](repeating: 0, count: 64)
            let count = unsafe strftime(&buffer, buffer.count, "%a, %d %b %Y %H:%M:%S GMT", &parts)
            let expected = String(decoding: buffer.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
            #expect(text == expected)
            seconds += 3 * 86_400
        }
    }
}
