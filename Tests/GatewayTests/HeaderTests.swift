import Model
import NIOHTTP1
import Testing
import Tokens

@testable import Gateway
@testable import HTTPServer
@testable import Store

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

    func isFresh(_ headers: HTTPHeaders, tag: String = "abc") throws -> Bool {
        let stamp = PackageReader.Stamp(
            token: try AuthenticationToken("0123456789abcdef"), version: 1, modifiedEpochSeconds: Self.modified,
            entityTag: tag)
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

    /// The tag of a version whose package is not stored cannot be compared.
    @Test func aVersionWithoutATagIsJudgedByItsDate() throws {
        for tag in [#""abc""#, #""""#, "junk"] {
            #expect(try self.isFresh(["If-None-Match": tag, "If-Modified-Since": "784111777"], tag: ""))
            #expect(try !self.isFresh(["If-None-Match": tag, "If-Modified-Since": "784111776"], tag: ""))
            #expect(try !self.isFresh(["If-None-Match": tag], tag: ""))
        }
        #expect(try self.isFresh(["If-None-Match": "*"], tag: ""))
    }

    @Test func tagsInSeveralHeadersTakePrecedenceOverDates() throws {
        #expect(try self.isFresh(["If-None-Match": #""x""#, "if-none-match": #""abc""#, "If-Modified-Since": "0"]))
        #expect(try !self.isFresh([:]))
        #expect(!ConditionalFetch(Self.fields([:])).isConditional)
        #expect(ConditionalFetch(Self.fields(["if-modified-since": "x"])).isConditional)
    }
}
