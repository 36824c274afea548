import Model
import Redis
import TestKit
import TestTraits
import Testing

@testable import Store

/// The devices that an order accepts. One test at a time: each has its own server.
@Suite(.server, .serialized, .timeLimit(.minutes(1))) struct DeviceAdmissionTests {
    private func stamp(_ offset: Int64) -> RegistrationStamp {
        RegistrationStamp(offset: offset, epochMilliseconds: 1_741_190_531_000)
    }

    @Test func anOrderAtItsLimitRefusesOnlyNewDevices() async throws {
        try await StoreFixture.with { fixture in
            for number in 0..<3 {
                let key = try registration("d\(number)", "1")
                #expect(try await fixture.registrations.admit(key, record("aa"), limit: 3) == .admitted)
                _ = try await fixture.registrations.register(key, record("aa"))
            }
            #expect(try await fixture.registrations.admit(registration("d3", "1"), record("aa"), limit: 3) == .full)
            let other = try await fixture.registrations.admit(registration("d3", "2"), record("aa"), limit: 3)
            #expect(other == .admitted, "another order")
            for number in 0..<3 {
                let key = try registration("d\(number)", "1")
                for _ in 0..<5 {
                    #expect(try await fixture.registrations.admit(key, record("aa"), limit: 3) == .unchanged)
                }
            }
            // A smaller bound refuses no device that is already registered.
            let known = try registration("d0", "1")
            #expect(try await fixture.registrations.admit(known, record("aa"), limit: 1) == .unchanged)
            #expect(try await fixture.registrations.admitEnd(of: known, limit: 1) == .admitted)
        }
    }

    @Test func registrationChurnIsRateLimited() async throws {
        try await StoreFixture.with { fixture in
            var admitted = 0
            var wait: Int64 = 0
            for number in 0..<50 {
                let key = try registration("d\(number)", "1")
                switch try await fixture.registrations.admit(key, record("aa"), limit: 10) {
                case .admitted:
                    admitted += 1
                    _ = try await fixture.registrations.register(key, record("aa"), at: self.stamp(Int64(number)))
                    #expect(try await fixture.registrations.admitEnd(of: key, limit: 10) == .admitted)
                    try await fixture.registrations.unregister(key, at: self.stamp(Int64(number) + 1))
                case .tooSoon(let milliseconds): wait = milliseconds
                case .full, .unchanged: Issue.record("nobody is registered")
                }
            }
            #expect(admitted == 10)
            #expect((1...360_000).contains(wait), "an hour divided by ten")
            let stranger = try await fixture.registrations.admitEnd(of: registration("nobody", "1"), limit: 10)
            #expect(stranger != .admitted, "the end of what is not there leaves a record as well")
            let left = try await fixture.raw("PTTL", StoreKeys.admitted(try key("1"))).integer ?? 0
            #expect((1...3_600_000).contains(left), "the debt goes by itself")
            // As after half of the time, and with a clock that was set back.
            for (moment, expected) in [(1_800_000, 5), (Int64.max / 4, 0)] {
                let now = try #require(try await fixture.raw("TIME").array?[0].integer) * 1000
                try await fixture.raw("SET", StoreKeys.admitted(try key("1")), "\(now &+ moment)")
                var count = 0
                for number in 0..<20 {
                    let key = try registration("e\(number)", "1")
                    if try await fixture.registrations.admit(key, record("aa"), limit: 10) == .admitted { count += 1 }
                }
                #expect((expected - 1...expected).contains(count))
            }
        }
    }

    @Test func aRenewalIsFreeOncePerHour() async throws {
        try await StoreFixture.with { fixture in
            let (key, noon) = (try registration("d", "1"), Int64(1_767_268_800_000))
            func admit(_ token: String, after milliseconds: Int64) async throws -> Registrations.Admission {
                try await fixture.registrations.admit(key, record(token, at: noon + milliseconds), limit: 2)
            }
            #expect(try await admit("aa", after: 0) == .admitted)
            _ = try await fixture.registrations.register(key, record("aa", at: noon), at: self.stamp(1))
            for milliseconds: Int64 in [-3_599_999, 0, 3_599_999] {
                #expect(try await admit("aa", after: milliseconds) == .unchanged)
            }
            let renewed = try await fixture.registrations.registration(key)
            #expect(try renewed == record("aa", at: noon + 3_599_999), "the latest moment")
            #expect(try await admit("aa", after: 3_600_000) == .admitted)
            #expect(try await admit("aa", after: 3_600_001) == .unchanged, "whether or not Kafka had the record")
            for _ in 0..<50 { #expect(try await admit("aa", after: 7_199_999) == .unchanged) }
            #expect(try await admit("bb", after: 7_199_999) == .admitted, "the second of two new ones")
            guard case .tooSoon = try await admit("cc", after: 7_199_999) else {
                Issue.record("another push token was free")
                return
            }
            #expect(try await admit("aa", after: 7_200_000) == .admitted, "the hour of its record is over")
            for value in ["junk", "[]", #"{"pushToken":1,"registered":1}"#, #"{"pushToken":"aa"}"#] {
                _ = try await fixture.raw("HSET", StoreKeys.devices(key.order), "d", value)
                guard case .tooSoon = try await admit("aa", after: 0) else {
                    Issue.record("\(value)")
                    return
                }
            }
        }
    }

    /// The pusher read a registration whose token is gone as of a moment before the renewal.
    @Test func aRenewalWithoutARecordOutlivesTheEndOfItsToken() async throws {
        try await StoreFixture.with { fixture in
            let (key, noon) = (try registration("d", "1"), Int64(1_767_268_800_000))
            _ = try await fixture.registrations.register(key, record("aa", at: noon), at: self.stamp(1))
            let read = try #require(try await fixture.registrations.registration(key))
            let renewal = try record("aa", at: noon + 1000)
            #expect(try await fixture.registrations.admit(key, renewal, limit: 10) == .unchanged)
            #expect(try await !fixture.registrations.retire(key, read))
            #expect(try await fixture.registrations.registration(key) == renewal)
            #expect(try await fixture.registrations.retire(key, renewal))
            #expect(try await fixture.registrations.admit(key, renewal, limit: 10) == .admitted, "it is a new one")
        }
    }

    /// A renewal that overtakes an end on its way to Redis has a record of its own, which comes after that of the end.
    @Test func aRenewalAfterAnAdmittedEndHasARecord() async throws {
        try await StoreFixture.with { fixture in
            let key = try registration("d", "1")
            _ = try await fixture.registrations.register(key, record("aa"), at: self.stamp(1))
            #expect(try await fixture.registrations.admitEnd(of: key, limit: 2) == .admitted)
            #expect(try await fixture.registrations.admit(key, record("aa"), limit: 2) == .admitted)
            #expect(try await fixture.registrations.admitEnd(of: key, limit: 2) == .admitted)
            #expect(try await fixture.registrations.admitEnd(of: key, limit: 2) == .admitted, "its record failed")
            #expect(try await fixture.registrations.admit(key, record("aa"), limit: 2) == .admitted)
            guard case .tooSoon = try await fixture.registrations.admit(key, record("aa"), limit: 2) else {
                Issue.record("renewals after an end were free")
                return
            }
            _ = try await fixture.registrations.register(key, record("aa"), at: self.stamp(3))
            try await fixture.registrations.unregister(key, at: self.stamp(2))
            #expect(try await fixture.registrations.admit(key, record("aa"), limit: 2) == .unchanged)
        }
    }

    @Test func concurrentAdmissionsDoNotExceedTheLimit() async throws {
        try await StoreFixture.with { fixture in
            let admitted = try await withThrowingTaskGroup(of: Bool.self) { group in
                for number in 0..<200 {
                    group.addTask {
                        let key = try registration("d\(number)", "1")
                        return try await fixture.registrations.admit(key, record("aa"), limit: 20) == .admitted
                    }
                }
                return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
            }
            #expect(admitted == 20)
        }
    }

    @Test func rememberedUnregistrationsAreBounded() async throws {
        try await StoreFixture.with { fixture in
            let limit = StoreScripts.endedLimit
            let items = try (0..<limit + 100).map {
                Registrations.Restored(
                    key: try registration("d\($0)", "1"), registration: nil,
                    stamp: RegistrationStamp(offset: Int64($0), epochMilliseconds: 1_741_190_531_000 + Int64($0)))
            }
            for start in stride(from: 0, to: items.count, by: 500) {
                try await fixture.registrations.restore(Array(items[start..<min(items.count, start + 500)]))
            }
            let name = StoreKeys.ended(try key("1"))
            #expect(try await fixture.raw("HLEN", name).integer == Int64(limit / 2 + 100))
            let isThere = "return redis.call('HEXISTS', KEYS[1], redis.sha1hex(ARGV[1]))"
            let newest = try await fixture.raw("EVAL", isThere, "1", name, "d\(limit + 99)").integer
            #expect(newest == 1, "the newest are remembered")
            #expect(try await fixture.raw("EVAL", isThere, "1", name, "d0").integer == 0)
        }
    }
}
