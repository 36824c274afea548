import Foundation
import Redis
import TestKit
import TestTraits
import Testing

@testable import Store

/// Explores what becomes of an order that is removed: whatever comes in between, and wherever a worker ends, nothing is
/// left but what `privacy.md` lists.
///
/// `WAYBILL_MODEL_STEPS` is the longest sequence.
@Suite(.server, .serialized, .timeLimit(.minutes(5))) struct RemovalModelTests {
    private static func explore(
        _ url: String, _ things: Set<RemovalModel.Thing>, steps: Int, _ limits: RemovalModel.Limits = .init(),
        _ fault: RemovalModel.Fault? = nil
    ) async throws -> Exploration {
        try await Exploration.run(on: url, steps: steps) {
            try RemovalModel(redis: $0, things: things, limits: limits, fault: fault)
        }
    }

    private static func steps(_ standard: Int) -> Int {
        ProcessInfo.processInfo.environment["WAYBILL_MODEL_STEPS"].flatMap { Int($0) } ?? standard
    }

    /// The things that an order may get, with the longest sequence of steps.
    static let cases: [(things: Set<RemovalModel.Thing>, steps: Int)] = [
        ([.registration], 10), ([.parcel], 12), ([.notification], 10),
    ]

    @Test(arguments: cases.indices)
    func nothingIsLeftOfARemovedOrder(_ index: Int) async throws {
        let server = try await RedisServer.startAlone()
        let (things, standard) = Self.cases[index]
        let steps = Self.steps(standard)
        let exploration = try await Self.explore(server.url, things, steps: steps)
        await server.stop()
        print("\(things): \(exploration)")
        if let violation = exploration.violation { Issue.record("\(violation)") }
        #expect(exploration.depth == steps || exploration.isWhole)
    }

    /// With the thing that it is about, and the ends and losses that it takes.
    static let faults: [(RemovalModel.Fault, RemovalModel.Thing, RemovalModel.Limits)] = [
        (.topicsAreNotRead, .registration, .init(runs: 1, ends: 1, losses: 0)),
        (.parcelsAreNotedFirst, .parcel, .init(runs: 1, ends: 0, losses: 1)),
    ]

    @Test(arguments: faults.indices)
    func aPlantedFaultIsFound(_ index: Int) async throws {
        let (fault, thing, limits) = Self.faults[index]
        let server = try await RedisServer.startAlone()
        let exploration = try await Self.explore(server.url, [thing], steps: 20, limits, fault)
        await server.stop()
        print("\(fault): \(exploration)")
        #expect(try #require(exploration.violation, "it was not found").steps.count > 6)
    }

    @Test func aRemovedOrderThatTakesARegistrationIsFound() async throws {
        let server = try await RedisServer.startAlone()
        let client = try server.client()
        let source = StoreScripts.registerDevice.source
        let line = "then return -1 end"
        try #require(source.contains(line), "the script has no such line")
        var digests: [String] = []
        for text in [source, source.replacingOccurrences(of: line, with: "then end")] {
            digests.append(try #require(try await client.send(RedisCommand("SCRIPT", "LOAD", .string(text))).text))
        }
        await client.close()
        let disguise = try await RedisDisguise.start(before: server, replacing: [(digests[0], digests[1])])
        let exploration = try await Self.explore(
            disguise.url, [.registration], steps: 20, .init(runs: 1, ends: 0, losses: 0))
        await server.stop()
        print("a removed order takes registrations: \(exploration)")
        #expect(try #require(exploration.violation, "it was not found").steps.count > 6)
    }
}
