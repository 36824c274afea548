import Testing

@testable import Packager

struct OutageDetectorTests {
    private let now = ContinuousClock.now

    @Test func severalFailingKeysAreAnOutageUntilOneSucceeds() {
        var watch = OutageDetector()
        #expect(watch.record(done: 0, delayed: 5, now: self.now) == nil)
        #expect(watch.record(done: 0, delayed: 5, now: self.now + .seconds(1)) == nil)
        #expect(watch.record(done: 0, delayed: 5, now: self.now + .seconds(2)) == .away)
        #expect(watch.record(done: 0, delayed: 5, now: self.now + .seconds(3)) == nil, "told once")
        #expect(watch.record(done: 1, delayed: 4, now: self.now + .seconds(4)) == .back)
        #expect(watch.record(done: 0, delayed: 4, now: self.now + .seconds(5)) == nil, "it begins anew")
    }

    @Test func aSinglePoisonedKeyIsNotAnOutage() {
        var watch = OutageDetector()
        for second in 0..<100 {
            #expect(watch.record(done: 0, delayed: 1, now: self.now + .seconds(second)) == nil)
        }
    }

    @Test func anOutageEndsWhenNoKeyIsDelayed() {
        var watch = OutageDetector()
        _ = watch.record(done: 0, delayed: 2, now: self.now)
        #expect(watch.record(done: 0, delayed: 2, now: self.now + .seconds(9)) == .away)
        #expect(watch.record(done: 0, delayed: 0, now: self.now + .seconds(10)) == .back)
    }

    @Test func anOutageIsLoggedEveryTenSeconds() {
        var watch = OutageDetector()
        let lines = (0..<100).count { watch.isLogged(now: self.now + .seconds($0)) }
        #expect(lines == 10)
    }
}
