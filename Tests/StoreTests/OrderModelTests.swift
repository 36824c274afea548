import Foundation
import Model
import Redis
import TestKit
import TestTraits
import Testing

@testable import Store

/// False on a cluster: the keys of one order are in one slot, so there is nothing more to find.
private let isOnServer = ProcessInfo.processInfo.environment["WAYBILL_TEST_CLUSTER"] != "1"

/// Explores what may become of an order in Redis: all sequences of steps, each distinct world once, breadth first.
///
/// `WAYBILL_MODEL_STEPS` is the longest sequence, 5 by default.
@Suite(.server, .serialized, .timeLimit(.minutes(5)), .enabled(if: isOnServer)) struct OrderModelTests {
    @Test func noSequenceOfStepsLosesAnOrder() async throws {
        let server = try await RedisServer.startAlone()
        let steps = ProcessInfo.processInfo.environment["WAYBILL_MODEL_STEPS"].flatMap { Int($0) } ?? 5
        let exploration = try await Self.explore(server.url, steps: steps)
        await server.stop()
        print(exploration)
        if let violation = exploration.violation { Issue.record("\(violation)") }
        #expect(exploration.depth == steps || exploration.isWhole)
    }

    /// A script, and a change of it that makes it wrong.
    struct Fault: Sendable, CustomTestStringConvertible {
        let name: String
        let script: RedisScript
        let text: String
        let instead: String
        let leastSteps: Int

        var testDescription: String { self.name }
    }

    static let faults = [
        Fault(
            name: "cooling keeps the revision", script: StoreScripts.cool,
            text: "revised(values[1])", instead: "values[1]", leastSteps: 4),
        Fault(
            name: "a dropped package leaves its tag", script: StoreScripts.write,
            text: "'etag', 'head', 'assets'", instead: "'head', 'assets'", leastSteps: 4),
        Fault(
            name: "a record before the request to announce meets it", script: StoreScripts.acknowledge,
            text: "and not isOther then", instead: "then", leastSteps: 4),
        Fault(
            name: "a package of an earlier version", script: StoreScripts.write,
            text: "if ARGV[2] == 'unpackaged' and reply == 1 then dropPackage(false) end", instead: "", leastSteps: 4),
        Fault(
            name: "a restore takes an older record", script: StoreScripts.restoreOrder,
            text: "if standingVersion > version then return 3 end", instead: "", leastSteps: 4),
        Fault(
            name: "a write keeps the revision", script: StoreScripts.write,
            text: "math.max(now, current + 1)", instead: "math.max(0, current)", leastSteps: 4),
        Fault(
            name: "cooling in spite of a write since", script: StoreScripts.cool,
            text: "values[1] ~= ARGV[1] or values[2] ~= ARGV[2] or values[3]", instead: "false", leastSteps: 4),
        Fault(
            name: "the package of a removed order", script: StoreScripts.write,
            text: "if lifetime or isTrace then redis.call('DEL', KEYS[1]) end", instead: "", leastSteps: 4),
    ]

    @Test(arguments: faults)
    func aPlantedFaultIsFound(_ fault: Fault) async throws {
        let server = try await RedisServer.startAlone()
        let client = try server.client()
        try #require(fault.script.source.contains(fault.text), "the script has no such line")
        let wrong = fault.script.source.replacingOccurrences(of: fault.text, with: fault.instead)
        var digests: [String] = []
        for source in [fault.script.source, wrong] {
            digests.append(try #require(try await client.send(RedisCommand("SCRIPT", "LOAD", .string(source))).text))
        }
        await client.close()
        let disguise = try await RedisDisguise.start(before: server, replacing: [(digests[0], digests[1])])
        // Fewer kinds of steps, so that eight explorations take seconds.
        let kinds: [OrderModel.Step.Kind] = [.packaged, .unpackaged, .positions, .announced, .removal]
        let exploration = try await Self.explore(disguise.url, steps: 8) {
            try OrderModel(redis: $0, kinds: kinds, hasDevices: false)
        }
        await server.stop()
        print("\(fault.name): \(exploration)")
        let violation = try #require(exploration.violation, "it was not found")
        #expect(violation.steps.count >= fault.leastSteps)
    }

    // MARK: exploring

    static func explore(
        _ url: String, steps: Int,
        model: (RedisClient) throws -> OrderModel = { try OrderModel(redis: $0) }
    ) async throws -> Exploration {
        try await Exploration.run(on: url, steps: steps, model)
    }
}

extension OrderModel: ExploredModel {
    var start: World { World() }

    func look(at world: World) async throws -> Result<OrderStore.StoredOrder?, StoreError> {
        try await self.order(in: world)
    }

    func take(
        _ step: Step, from world: World, _ before: Result<OrderStore.StoredOrder?, StoreError>
    ) async throws -> (world: World, broken: String?) {
        let outcome = try await self.take(step, from: world)
        let after = step.isOfRedis ? try await self.order(in: outcome.world) : before
        return (outcome.world, Self.broken(step, world, before, outcome, after))
    }

    func areInOneSystem(_ one: World, _ other: World) -> Bool { one.hasSameRedis(as: other) }

    func name(of world: World) -> String { world.canonical }

    // MARK: rules

    /// Returns the rule that a step broke; nil if it broke none.
    private static func broken(
        _ step: Step, _ world: World, _ before: Result<OrderStore.StoredOrder?, StoreError>,
        _ outcome: Outcome, _ after: Result<OrderStore.StoredOrder?, StoreError>
    ) -> String? {
        let next = outcome.world
        guard case .success(let old) = before, case .success(let new) = after else {
            return "the order can be read: \(after)"
        }
        if let written = outcome.written, written.map(Self.essence) != old.map(Self.essence) {
            return "a write that is taken was made of what was there"
        }
        if next.hasDevice != world.hasDevice, ![.register, .unregister, .lose].contains(step) {
            return "the registration stays"
        }
        let hasPackage = ["etag", "head", "assets", "tail", "signer"].filter { next.fields[$0] != nil }
        if let new {
            if !new.state.isRemoved, next.fields["document"] == nil, !new.isCold { return "it has document or place" }
            if !hasPackage.isEmpty, hasPackage.count < 5 { return "a package is whole: \(hasPackage)" }
            if hasPackage.count == 5, next.text(.head) != OrderModel.label(new.state) || new.state.isRemoved {
                return "a package is that of its version"
            }
            if new.isPublished, new.unpublished.isEmpty, !next.log.contains(where: { $0.version == new.state.version })
            {
                return "what counts as published is on the topic"
            }
            if new.isPublished, new.unpublished.isEmpty, let request = next.request, !next.isAnnounced(request) {
                return "a request to announce it again stays until it is met"
            }
        } else if !hasPackage.isEmpty {
            return "there is no package without an order"
        }
        guard let old, step != .lose else { return nil }
        guard let new else { return "an order that is there stays, at least as the trace of a removed one" }
        if (new.state.version, new.state.modifiedEpochSeconds) < (old.state.version, old.state.modifiedEpochSeconds) {
            return "version and second never go back"
        }
        for hand in 0..<OrderModel.packagers
        where OrderModel.position(new.state, of: hand) < OrderModel.position(old.state, of: hand) {
            return "an applied change stays applied"
        }
        if case .write = step { return nil }
        if case .sweepBeside = step { return nil }
        // A record may have more than Redis had of it after a loss.
        if step == .restore, OrderModel.World.name(new.state) != OrderModel.World.name(old.state) { return nil }
        return Self.essence(new) == Self.essence(old) ? nil : "only a write changes the order"
    }

    /// All that an order consists of, however it is kept.
    private static func essence(_ order: OrderStore.StoredOrder) -> String {
        "\(OrderModel.World.name(order.state)) \(order.state.isRemoved)"
    }
}
