import FoundationEssentials
import HTTPServer
import Model
import NIOCore
import NIOPosix
import Operations
import Store
import TestKit
import TestTraits
import Testing

@testable import Adoption
@testable import Gateway

/// The gateway's counts of a brand's adoption. Serialized: each test has its own servers.
@Suite(.server, .serialized, .timeLimit(.minutes(2))) struct AdoptionTests {
    typealias Fixture = GatewayFixture

    /// A count, without its brand and day.
    private func taken(_ tally: AdoptionTally) -> [String: Int64] {
        tally.take(day: "2025-03-05").reduce(into: [:]) { sums, entry in
            switch entry.key {
            case .level(let level, _): sums[level.rawValue] = entry.value
            case .count(let figure, _, _): sums[figure.rawValue] = entry.value
            }
        }
    }

    private func with(
        _ body: @escaping @Sendable (Fixture, AdoptionTally) async throws -> Void
    ) async throws {
        var options = Fixture.Options()
        let tally = AdoptionTally(factory: MetricsRegistry())
        options.adoption = tally
        try await Fixture.with(options) { fixture in try await body(fixture, tally) }
    }

    @Test func theFirstFetchOfAnOrderCountsOnce() async throws {
        try await self.with { fixture, tally in
            try await fixture.put("1")
            try await fixture.put("2")
            func fetch(
                _ order: String, _ headers: [String] = [], method: String = "GET", token: String = Fixture.ownToken
            ) async throws -> Int {
                try await fixture.once(method, fixture.package(order), token: token, headers).status
            }
            #expect(try await fetch("1", token: "the token of nobody") == 401)
            #expect(try await fetch("1", method: "HEAD") == 200)
            // A device that has a version has fetched it before, whatever Redis knows.
            #expect(try await fetch("1", ["If-None-Match: \"other\""]) == 200)
            #expect(try await fetch("1", ["If-None-Match: \"tag-1\""]) == 304)
            #expect(self.taken(tally) == [:])
            for _ in 0..<2 { #expect(try await fetch("1") == 200) }
            try await eventually("the mark") { try await fixture.isMarked("1") }
            #expect(try await fetch("1") == 200)
            #expect(try await fetch("2") == 200)
            try await eventually("the mark") { try await fixture.isMarked("2") }
            var sum: [String: Int64] = [:]
            try await eventually("both counts") {
                sum.merge(self.taken(tally)) { $0 + $1 }
                return sum == ["fetched": 2]
            }
        }
    }

    @Test func aFetchByADeviceThatHasAnOlderVersionIsAnUpdate() async throws {
        try await self.with { fixture, tally in
            let now = Int64(Date().timeIntervalSince1970)
            try await fixture.put("new", modified: now - 2)
            try await fixture.put("old", modified: now - 100)
            func fetch(_ order: String, since: Int64) async throws -> Int {
                let date = HTTPDate.format(epochSeconds: since)
                return try await fixture.once(
                    "GET", fixture.package(order), token: Fixture.ownToken, ["If-Modified-Since: \(date)"]
                ).status
            }
            #expect(try await fetch("new", since: now - 1000) == 200)
            #expect(self.taken(tally) == ["updated": 1, "prompt": 1])
            #expect(try await fetch("old", since: now - 1000) == 200)
            #expect(self.taken(tally) == ["updated": 1])
            #expect(try await fetch("new", since: now - 2) == 304)
            // The package was signed again, and the device has this version.
            let date = HTTPDate.format(epochSeconds: now - 2)
            let headers = ["If-None-Match: \"before\"", "If-Modified-Since: \(date)"]
            #expect(
                try await fixture.once("GET", fixture.package("new"), token: Fixture.ownToken, headers).status == 200)
            #expect(self.taken(tally) == [:])
        }
    }

    @Test func ordersComeIntoWalletAndLeaveIt() async throws {
        try await self.with { fixture, tally in
            try await fixture.put("1")
            func send(_ method: String, _ device: String) async throws -> Int {
                try await fixture.once(
                    method, fixture.registration(device, "1"), token: Fixture.ownToken,
                    body: method == "POST" ? #"{"pushToken":"aa"}"# : nil
                ).status
            }
            #expect(try await send("POST", "d") == 201)
            #expect(self.taken(tally) == ["added": 1, "orders": 1, "devices": 1])
            #expect(try await send("POST", "d") == 200)
            #expect(try await send("POST", "e") == 201)
            #expect(self.taken(tally) == ["devices": 1])
            #expect(try await send("DELETE", "d") == 200)
            #expect(try await send("DELETE", "d") == 200)
            #expect(self.taken(tally) == ["devices": -1])
            #expect(try await send("DELETE", "e") == 200)
            #expect(self.taken(tally) == ["removed": 1, "orders": -1, "devices": -1])
        }
    }
}

extension GatewayFixture {
    fileprivate func isMarked(_ order: String) async throws -> Bool {
        let reader = PackageReader(redis: self.redis, readsMark: true)
        let spans = try await reader.spans(of: Self.key(order), on: NIOSingletons.posixEventLoopGroup.next()).get()
        return spans?.isUnfetched == false
    }
}
