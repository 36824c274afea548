import Model
import Testing

@testable import Packager

@Suite struct ResignProgressTests {
    private func progress() -> ResignProgress {
        var progress = ResignProgress(purpose: "p", server: "s", cursor: "17", total: 10)
        for outcome in [.current, .signed, .renewed, .refused("x"), .absent] as [OrderRepackager.Outcome] {
            progress.count(outcome)
        }
        return progress
    }

    @Test func aBookmarkIsAcceptedOnlyForItsPurposeAndServer() {
        let progress = self.progress()
        #expect(ResignProgress(progress.encoded, purpose: "p", server: "s") == progress)
        #expect(ResignProgress(progress.encoded, purpose: "another brand", server: "s") == nil)
        // After a restart of Redis a cursor means nothing.
        #expect(ResignProgress(progress.encoded, purpose: "p", server: "restarted") == nil)
    }

    @Test(arguments: [
        "", "{}", "[]", "17", #"{"purpose":"p","server":"s"}"#, #"{"purpose":"p","server":"s","cursor":"a"}"#,
        #"{"purpose":"p","server":"s","cursor":null}"#, #"{"purpose":"p","server":"","cursor":"1"}"#,
    ])
    func invalidProgressIsDiscarded(text: String) {
        #expect(ResignProgress(Array(text.utf8), purpose: "p", server: "s") == nil)
        #expect(ResignProgress(Array(text.utf8), purpose: "p", server: "") == nil)
    }

    @Test func countsFromABookmarkCannotOverflow() throws {
        let text = #"{"purpose":"p","server":"s","cursor":"1","done":9223372036854775807,"total":-5}"#
        var progress = try #require(ResignProgress(Array(text.utf8), purpose: "p", server: "s"))
        progress.count(.signed)
        #expect(progress.total == 0)
        #expect(progress.line(sinceStart: (1, 0)).contains("(100%)"))
    }

    @Test func theProgressLineShowsCountsRateAndTimeLeft() {
        let line = self.progress().line(sinceStart: (done: 4, seconds: 2))
        #expect(line == "5 of 10 orders (50%), 2/s, 0 min 3 s left; 1 re-signed, 1 new versions, 1 refused")
        let empty = ResignProgress(purpose: "p", server: "s", total: 0).line(sinceStart: (0, 1))
        #expect(empty == "0 of 0 orders (100%), 0/s; 0 re-signed, 0 new versions, 0 refused")
    }

    @Test func theRateIsKeptWithAtMostAOneSecondBurstAfterAStall() {
        var pace = RateLimiter(perSecond: 100)
        #expect(pace.wait(after: 50, now: .seconds(10)) == .milliseconds(500))
        #expect(pace.wait(after: 50, now: .milliseconds(10_500)) == .milliseconds(500))
        #expect(pace.wait(after: 10, now: .milliseconds(10_900)) == .milliseconds(200))
        #expect(pace.wait(after: 0, now: .milliseconds(11_200)) == .zero)
        // A minute later, at most one second's worth is allowed immediately.
        var ahead = 0
        while pace.wait(after: 10, now: .seconds(70)) == .zero { ahead += 10 }
        #expect(ahead == 100)
    }
}
