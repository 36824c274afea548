import Model
import TestKit
import TestTraits
import Testing

@testable import Store

/// One test at a time: each has its own server.
@Suite(.serialized) struct DeviceOrdersTests {
    @Test(.server) func anEmptyOrInvalidTagReturnsAllOrders() async throws {
        try await StoreFixture.with { fixture in
            let device = try DeviceIdentifier("device")
            for order in ["b", "a"] {
                _ = try await fixture.write(version(order, 1))
                _ = try await fixture.registrations.register(registration("device", order), record("aa"))
            }
            for tag in [
                "", "junk", "-1", "1.5", "99999999999999999999999", "9223372036854775807", "2025-03-05", "\u{0}", "٣",
            ] {
                let changes = try #require(try await fixture.changes(device, tag), "tag \(tag)")
                #expect(changes.orders.map(\.rawValue) == ["a", "b"])
            }
            let tag = try #require(try await fixture.changes(device)).tag
            #expect(try await fixture.changes(device, tag) == nil, "the tag covers what it came with")
            #expect(try await fixture.changes(DeviceIdentifier("stranger")) == nil)
        }
    }

    @Test(.server) func onlyOrdersChangedSinceTheTagAreReported() async throws {
        try await StoreFixture.with { fixture in
            let device = try DeviceIdentifier("device")
            for order in ["1", "2", "3"] {
                _ = try await fixture.write(version(order, 1))
                _ = try await fixture.registrations.register(registration("device", order), record("aa"))
            }
            _ = try await fixture.registrations.register(registration("device", "unknown"), record("aa"))
            var tag = try #require(try await fixture.changes(device)).tag
            _ = try await fixture.write(version("2", 2))
            var changes = try #require(try await fixture.changes(device, tag))
            #expect(changes.orders.map(\.rawValue) == ["2"])
            tag = changes.tag
            _ = try await fixture.write(removal("1", 2))
            #expect(try await fixture.changes(device, tag) == nil, "a removed order is not listed")
            _ = try await fixture.write(version("1", 3))
            changes = try #require(try await fixture.changes(device, tag))
            #expect(changes.orders.map(\.rawValue) == ["1"])
        }
    }

    @Test(.server) func aRedisErrorIsNotReportedAsNoChange() async throws {
        try await StoreFixture.with { fixture in
            _ = try await fixture.write(version("1", 1))
            _ = try await fixture.registrations.register(registration("device", "1"), record("aa"))
            _ = try await fixture.registrations.register(registration("device", "2"), record("aa"))
            _ = try await fixture.raw("SET", StoreKeys.order(try key("2")), "a string")
            let changes = try await fixture.changes(DeviceIdentifier("device"))
            #expect(changes?.orders.map(\.rawValue) == ["1"], "a damaged order hides no other")
            try await fixture.server.everywhere("ACL", "SETUSER", "default", "-hmget")
            let error = await #expect(throws: StoreError.self) {
                _ = try await fixture.changes(DeviceIdentifier("device"))
            }
            #expect(error?.code == .unavailable)
        }
    }

    @Test func aTagIsEarlierThanTheClockAtTheStartOfTheRead() throws {
        let a = try OrderIdentifier("a")
        let b = try OrderIdentifier("b")
        func changes(_ stamps: [(OrderIdentifier, Int64)], _ since: Int64, _ clock: Int64) -> DeviceOrders.Changes? {
            DeviceOrders.changes(stamps, since: since, clock: clock)
        }
        #expect(changes([], 0, 100) == nil)
        #expect(changes([(b, 10), (a, 20)], 0, 100) == .init(orders: [a, b], tag: "20"))
        #expect(changes([(b, 10), (a, 20)], 10, 100) == .init(orders: [a], tag: "20"))
        #expect(changes([(b, 10), (a, 20)], 20, 100) == nil)
        #expect(changes([(b, 10), (a, 120)], 10, 100) == .init(orders: [a], tag: "99"), "changed while reading")
        #expect(changes([(b, 10), (a, 100)], 10, 100) == .init(orders: [a], tag: "99"), "in the clock's microsecond")
        #expect(changes([(b, 10)], 100, 100) == .init(orders: [b], tag: "10"), "no tag of ours")
        #expect(changes([(b, 10)], .max, 100) == .init(orders: [b], tag: "10"))
    }

    /// Writers and a device that reads one order after the other, in every order of steps that the seeds give, with a
    /// clock that often stands still.
    @Test func aTagNeverHidesAChange() throws {
        for seed in UInt64(0)..<400 {
            var random = SeededGenerator(seed: seed)
            let orders = try (0..<4).map { try OrderIdentifier("\($0)") }
            var stamps: [Int64?] = orders.map { _ in nil }
            var isUnreported = orders.map { _ in false }
            var clock: Int64 = 1000
            var since: Int64 = 0
            func write(_ index: Int) {
                clock += Int64.random(in: 0...1, using: &random)
                stamps[index] = max(clock, (stamps[index] ?? 0) + 1)
                isUnreported[index] = true
            }
            func poll(isDisturbed: Bool) -> Bool {
                clock += Int64.random(in: isDisturbed ? 0...1 : 1...2, using: &random)
                let before = clock
                var seen: [(OrderIdentifier, Int64)] = []
                var writtenBehind = Set<Int>()
                var read = Set<Int>()
                for index in orders.indices.shuffled(using: &random) {
                    while isDisturbed && Bool.random(using: &random) {
                        let target = Int.random(in: orders.indices, using: &random)
                        write(target)
                        if read.contains(target) { writtenBehind.insert(target) }
                    }
                    if let stamp = stamps[index] { seen.append((orders[index], stamp)) }
                    read.insert(index)
                }
                guard let changes = DeviceOrders.changes(seen, since: since, clock: before) else { return false }
                since = DeviceOrders.stamp(changes.tag)
                for index in orders.indices
                where changes.orders.contains(orders[index]) && !writtenBehind.contains(index) {
                    isUnreported[index] = false
                }
                return true
            }
            for _ in 0..<40 {
                if Bool.random(using: &random) { write(Int.random(in: orders.indices, using: &random)) }
                _ = poll(isDisturbed: true)
            }
            var polls = 0
            while poll(isDisturbed: false) && polls < 100 { polls += 1 }
            #expect(polls < 100, "seed \(seed): the device is told the same for ever")
            #expect(!isUnreported.contains(true), "seed \(seed)")
        }
    }

    /// The same on a real server: each order is written once a round while the device asks, so each must be reported
    /// once a round at least.
    @Test(.server) func everyVersionIsReportedUnderConcurrentWrites() async throws {
        try await StoreFixture.with { fixture in
            let device = try DeviceIdentifier("device")
            let orders = (0..<60).map { "o\($0)" }
            for order in orders {
                _ = try await fixture.registrations.register(registration("device", order), record("aa"))
            }
            var random = SeededGenerator(seed: 7)
            var tag = ""
            for round in Int64(1)...3 {
                let shares = (0..<4).map { writer in
                    orders.enumerated().filter { $0.offset % 4 == writer }.map(\.element)
                }
                .map { $0.shuffled(using: &random) }
                var reported = Set<String>()
                try await withThrowingTaskGroup(of: Bool.self) { group in
                    for share in shares {
                        group.addTask {
                            for order in share {
                                let outcome = try await fixture.write(version(order, round))
                                #expect(outcome == .written)
                            }
                            return true
                        }
                    }
                    while !group.isEmpty {
                        guard let changes = try await fixture.changes(device, tag) else {
                            if try await group.next() == nil { break }
                            continue
                        }
                        reported.formUnion(changes.orders.map(\.rawValue))
                        tag = changes.tag
                    }
                }
                while let changes = try await fixture.changes(device, tag) {
                    reported.formUnion(changes.orders.map(\.rawValue))
                    tag = changes.tag
                }
                #expect(reported == Set(orders), "round \(round)")
            }
        }
    }
}
