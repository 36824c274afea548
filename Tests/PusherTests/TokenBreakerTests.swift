import Model
import Testing

@testable import Pusher

@Suite struct TokenBreakerTests {
    private var now = MonotonicTime.now
    private var breaker = TokenBreaker()

    private mutating func deliver(_ count: Int) { for _ in 0..<count { _ = self.breaker.delivered(now: self.now) } }

    /// Refuses bad tokens, each followed by this many deliveries, and returns the number of retired tokens.
    private mutating func retired(of count: Int, deliveriesBetween: Int = 0) -> Int {
        var retired = 0
        for _ in 0..<count {
            if self.breaker.refused(now: self.now).decision == .retire { retired += 1 }
            self.deliver(deliveriesBetween)
        }
        return retired
    }

    @Test mutating func nothingIsRetiredBeforeTheCredentialHasProvenItself() {
        for _ in 0..<1000 {
            #expect(self.breaker.refused(now: self.now) == .init(decision: .keep(.unproven), change: nil))
        }
        #expect(self.breaker.state.gauge == 0)
    }

    @Test mutating func aBadTokenIsRetiredWhileOthersAreDelivered() {
        self.deliver(1)
        #expect(self.breaker.refused(now: self.now) == .init(decision: .retire, change: nil))
        // A quiet brand's proof is not forgotten overnight.
        self.now += .seconds(86_400)
        #expect(self.retired(of: 1) == 1)
    }

    @Test mutating func aFewBadTokensAreAllowedAndTheNextOneOpens() {
        self.deliver(1)
        #expect(self.retired(of: TokenBreaker.alwaysAllowed) == TokenBreaker.alwaysAllowed)
        let ruling = self.breaker.refused(now: self.now)
        #expect(ruling == .init(decision: .keep(.open), change: .open(since: self.now)))
        // The alarm is raised once.
        #expect(self.breaker.refused(now: self.now) == .init(decision: .keep(.open), change: nil))
        #expect(self.breaker.state.gauge == 1)
    }

    @Test mutating func oneOfAHundredMayBeBad() {
        self.deliver(10_000)
        #expect(self.retired(of: 105, deliveriesBetween: 1) == 105)
        #expect(self.retired(of: 100, deliveriesBetween: 1) <= 2)
    }

    @Test mutating func retirementsPerWindowAreCapped() {
        self.deliver(1_000_000)
        #expect(self.retired(of: 10_000, deliveriesBetween: 1) == TokenBreaker.mostAllowed)
    }

    @Test mutating func aSuddenFloodIsNoticedAfterAFew() {
        self.deliver(1_000_000)
        #expect(self.retired(of: 1_000_000) == TokenBreaker.inARow - 1)
    }

    @Test mutating func badTokensOfEarlierWindowsAreForgotten() {
        self.deliver(1)
        for _ in 0..<100 {
            #expect(self.retired(of: TokenBreaker.alwaysAllowed, deliveriesBetween: 1) == TokenBreaker.alwaysAllowed)
            self.now += TokenBreaker.period
        }
        #expect(self.breaker.state == .closed)
    }

    @Test mutating func theWindowSlides() {
        self.deliver(1)
        // Five, and five again before the first are forgotten.
        #expect(self.retired(of: 5, deliveriesBetween: 1) == 5)
        self.now += TokenBreaker.period - TokenBreaker.bucket
        #expect(self.retired(of: 5, deliveriesBetween: 1) == 0)
    }

    @Test mutating func anOpenBreakerClosesAfterAQuietWindowWithDeliveries() {
        self.deliver(1)
        _ = self.retired(of: 20)
        #expect(self.breaker.state.gauge == 1)
        // The bad ones no longer count exactly when the window has passed.
        self.now += TokenBreaker.period - .milliseconds(1)
        #expect(self.breaker.delivered(now: self.now) == nil)
        self.now += .milliseconds(1)
        #expect(self.breaker.delivered(now: self.now) == .closed)
        #expect(self.breaker.delivered(now: self.now) == nil)
        #expect(self.retired(of: 1) == 1)
    }

    @Test mutating func anOpenBreakerStaysOpenAsLongAsTheFloodLasts() {
        self.deliver(1)
        _ = self.retired(of: 20)
        for _ in 0..<1000 {
            self.now += .seconds(10)
            #expect(self.retired(of: 1, deliveriesBetween: 1) == 0)
        }
        #expect(self.breaker.state.gauge == 1)
    }

    @Test mutating func withoutDeliveriesAnOpenBreakerStaysOpen() {
        self.deliver(1)
        _ = self.retired(of: 20)
        self.now += .seconds(86_400)
        #expect(self.retired(of: 3) == 0)
        #expect(self.breaker.state.gauge == 1)
    }

    @Test mutating func aClockThatStandsOrJumpsDoesNoHarm() {
        self.deliver(1)
        self.now = self.now - .seconds(10)
        #expect(self.retired(of: 1) == 1)
        self.now += .seconds(100_000_000_000)
        self.deliver(1)
        #expect(self.retired(of: 1) == 1)
    }
}
