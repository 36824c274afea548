import Foundation
import Model
import NIOHTTP1
import Testing
import Tokens

@testable import Gateway
@testable import Store

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

@Suite struct AuthorizationTests {
    @Test func theTokenFollowsACaseInsensitiveScheme() {
        #expect(Authorization.token("AppleOrder abc") == "abc")
        #expect(Authorization.token("appleorder abc") == "abc")
        #expect(Authorization.token("APPLEORDER a b") == "a b")
        for header in [
            nil, "", " ", "AppleOrder", "AppleOrder ", "AppleOrder  abc", "Bearer abc", "ApplePass abc", "abc",
            " AppleOrder abc",
            "AppleOrder\tabc", "AppleOrderabc ", "AppleOrder: abc",
        ] { #expect(Authorization.token(header) == nil, "\(header ?? "nil")") }
    }

    @Test func malformedTokensAreRefusedWithoutATrap() throws {
        let token = try AuthenticationToken("0123456789abcdef")
        let key = try GatewayFixture.key("1")
        let tokens = TokenAuthority(try TokenSecrets(file: Array("the only secret of the test".utf8)))
        for given in [
            "", "\u{0}", "0123456789abcdeF", "0123456789abcdef ", "0123456789abcdef\u{301}", "é", "0123456789abcde",
        ] {
            #expect(!tokens.opens(given, key, stored: token))
        }
        #expect(tokens.opens("0123456789abcdef", key, stored: token))
        #expect(Authorization.token("AppleOrder \u{301}x") == "\u{301}x")
        #expect(Authorization.token("\u{FFFD}\u{FFFD} x") == nil)
    }
}

@Suite struct ConditionalFetchTests {
    static let modified: Int64 = 784_111_777

    func isFresh(_ headers: HTTPHeaders) throws -> Bool {
        let stamp = PackageReader.Stamp(
            token: try AuthenticationToken("0123456789abcdef"), version: 1, modifiedEpochSeconds: Self.modified,
            entityTag: "abc")
        return ConditionalFetch(Self.fields(headers)).isFresh(stamp)
    }

    static func fields(_ headers: HTTPHeaders) -> Request.Fields {
        Request.Fields(
            ifNoneMatch: headers["if-none-match"], ifModifiedSince: headers.first(name: "if-modified-since"))
    }

    @Test(arguments: [
        "Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:38 GMT", "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994", "784111777", "784111777.25", "784111778",
    ])
    func aDeviceWithTheNewestVersionGetsNotModified(date: String) throws {
        #expect(try self.isFresh(["If-Modified-Since": date]))
    }

    @Test(arguments: [
        "Sun, 06 Nov 1994 08:49:36 GMT", "0", "784111776", "", "junk", "-1", "nan", "Sun, 06 Nov 1994 08:49:37",
    ])
    func anOlderOrUnreadableDateGetsThePackage(date: String) throws {
        #expect(try !self.isFresh(["If-Modified-Since": date]))
    }

    @Test(arguments: [
        #""abc""#, #"W/"abc""#, #""x", "abc""#, #""x" ,W/"abc" , "y""#, "*", #""x",*"#, "\"x\",\t\"abc\"\t",
    ])
    func oneMatchingEntityTagIsEnough(header: String) throws { #expect(try self.isFresh(["If-None-Match": header])) }

    @Test(arguments: ["", "abc", #""ABC""#, #""abc"#, #"w/"abc""#, #""a"bc"#, ",,,", #""*""#, "W/", #""abc"x"#])
    func aDifferentTagGetsThePackageDespiteTheDate(header: String) throws {
        #expect(try !self.isFresh(["If-None-Match": header, "If-Modified-Since": "Sun, 06 Nov 1994 08:49:37 GMT"]))
    }

    @Test func tagsInSeveralHeadersTakePrecedenceOverDates() throws {
        #expect(try self.isFresh(["If-None-Match": #""x""#, "if-none-match": #""abc""#, "If-Modified-Since": "0"]))
        #expect(try !self.isFresh([:]))
        #expect(!ConditionalFetch(Self.fields([:])).isConditional)
        #expect(ConditionalFetch(Self.fields(["if-modified-since": "x"])).isConditional)
    }
}
