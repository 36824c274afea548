import Model
import Testing

@testable import Pusher

@Suite struct HourlyLimitTests {
    private let start = MonotonicTime.now

    /// Random traffic; the test counts every grant itself.
    @Test(arguments: [1, 2, 3, 4, 5, 7, 10, 59, 60, 61, 1000])
    func noSlidingHourExceedsTheLimit(_ most: Int) {
        var generator = SystemRandomNumberGenerator()
        for _ in 0..<20 {
            var limit = HourlyLimit(perHour: most, now: self.start)
            var grants: [MonotonicTime] = []
            var now = self.start
            let longest = Int64.random(in: 1...8_000_000, using: &generator) / Int64(most)
            for _ in 0..<(most * 5) {
                now += .milliseconds(Int64.random(in: 0...max(1, longest), using: &generator))
                // A device that must wait retries at exactly that time, which is the worst case for the limit.
                if let wait = limit.acquire("device", now: now) {
                    #expect(wait > .zero)
                    #expect(wait <= limit.longestWait)
                    now += wait
                    #expect(limit.acquire("device", now: now) == nil)
                }
                grants.append(now)
            }
            // Both ends belong to the hour.
            for (index, grant) in grants.enumerated() where index + most < grants.count {
                #expect(grants[index + most] - grant > .seconds(3600))
            }
        }
    }

    @Test(arguments: [1, 2, 3, 60, 61, 1000, 3600])
    func theLimitIsReachedAndTheWaitIsBounded(_ most: Int) {
        var limit = HourlyLimit(perHour: most, now: self.start)
        var now = self.start
        var count = 0
        while now - self.start <= .seconds(3600) {
            if let wait = limit.acquire(1, now: now) { now += wait } else { count += 1 }
        }
        #expect(count == most)
        #expect(limit.longestWait <= .seconds(7200) / most)
    }

    @Test func aLimitOfZeroOrLessIsUnlimitedAndStoresNothing() {
        for most in [0, -1] {
            var limit = HourlyLimit(perHour: most, now: self.start)
            for _ in 0..<10_000 { #expect(limit.acquire(1, now: self.start) == nil) }
            #expect(limit.count == 0)
        }
    }

    @Test func theMaximumLimitDoesNotOverflow() {
        var limit = HourlyLimit(perHour: .max, now: self.start)
        for now in [self.start, self.start - .seconds(5), self.start + .seconds(1_000_000_000_000)] {
            for _ in 0..<100 { #expect(limit.acquire(1, now: now) == nil) }
        }
    }

    @Test func eachDeviceHasItsOwnLimit() {
        var limit = HourlyLimit(perHour: 2, now: self.start)
        for device in 0..<100 { #expect(limit.acquire(device, now: self.start) == nil) }
        for device in 0..<100 { #expect(limit.acquire(device, now: self.start) != nil) }
    }

    @Test func aRefusedAcquireDoesNotExtendTheWait() throws {
        var limit = HourlyLimit(perHour: 2, now: self.start)
        #expect(limit.acquire(1, now: self.start) == nil)
        let asked = limit.acquire(1, now: self.start)
        let wait = try #require(asked)
        for _ in 0..<100 { #expect(limit.acquire(1, now: self.start) == wait) }
        #expect(limit.acquire(1, now: self.start + wait) == nil)
    }

    @Test func devicesWithTheirFullBurstAgainAreForgotten() {
        var limit = HourlyLimit(perHour: 60, now: self.start)
        var now = self.start
        // 10 a second, each a new device that is back at its pace within two minutes: 1,200 are relevant.
        for device in 0..<50_000 {
            now += .milliseconds(100)
            #expect(limit.acquire(device, now: now) == nil)
            #expect(limit.count <= 2500)
        }
    }

    @Test func atCapacityADeviceAtItsLimitIsNotEvicted() {
        var limit = HourlyLimit(perHour: 10, capacity: 1000, now: self.start)
        // A device that has used up its allowance.
        while limit.acquire("greedy", now: self.start) == nil {}
        for device in 0..<100_000 {
            #expect(limit.acquire(device, now: self.start + .microseconds(Int64(device))) == nil)
            #expect(limit.count <= 1000)
        }
        #expect(limit.acquire("greedy", now: self.start + .seconds(1)) != nil)
    }

    @Test func aCapacityOfZeroKeepsAtMostOneDevice() {
        var limit = HourlyLimit(perHour: 1, capacity: 0, now: self.start)
        for device in 0..<100 {
            #expect(limit.acquire(device, now: self.start) == nil)
            #expect(limit.count <= 1)
        }
    }
}
