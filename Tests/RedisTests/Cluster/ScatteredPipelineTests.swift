import NIOCore
import TestKit
import Testing

@testable import Redis

@Suite struct ScatteredPipelineTests {
    private func echo(_ part: ScatteredPipeline.Part, _ pipeline: ScatteredPipeline) -> [RedisValue] {
        pipeline.commands(of: part).map { .status("\($0.arguments.last == "ASKING" ? "OK" : "\($0)")") }
    }

    /// A cluster that moves slots at random moments, refuses what it does not serve, and counts what it executes.
    private struct Cluster {
        var map = threeMasters()
        var executed: [String: Int] = [:]
        var order: [Int: [String]] = [:]

        mutating func run(_ commands: [RedisCommand], at node: NodeAddress, _ random: inout SeededGenerator)
            -> [RedisValue]
        {
            var isAsking = false
            return commands.map { command in
                if command == RedisCommand("ASKING") {
                    isAsking = true
                    return .status("OK")
                }
                defer { isAsking = false }
                guard case .string(let key) = command.arguments[1] else { return .error("ERR") }
                let slot = HashSlot.of(key.utf8)
                // One slot in ten is on its way to another node and has none of its keys any more.
                let target = slot % 10 == 0 ? RedisTests.node(3) : nil
                let owner = self.map.master(of: slot)
                if let target, owner == node { return .error("ASK \(slot) \(target)") }
                guard owner == node || (isAsking && target == node) else {
                    return .error("MOVED \(slot) \(owner.map(\.description) ?? "")")
                }
                if Int.random(in: 0..<20, using: &random) == 0 { return .error("TRYAGAIN wait") }
                self.executed[key, default: 0] += 1
                return .string(ByteBuffer(string: key))
            }
        }
    }

    @Test(arguments: UInt64(1)...40)
    func eachCommandIsExecutedOnceAndAnsweredInOrder(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        var cluster = Cluster()
        var known = threeMasters()
        for slot in 0..<HashSlot.count where Int.random(in: 0..<4, using: &random) == 0 {
            cluster.map.move(slot, to: node(Int.random(in: 0..<3, using: &random)))
        }
        let keys = (0..<Int.random(in: 1...60, using: &random)).map { "key-\($0)" }
        var pipeline = try ScatteredPipeline(keys.map { RedisCommand("GET", .string($0)) })
        var step = pipeline.begin(on: known, choice: 0)
        var underWay: [ScatteredPipeline.Part] = []
        var rounds = 0
        while pipeline.answers == nil {
            rounds += 1
            try #require(rounds < 1000)
            for (slot, node) in step.moves { known.move(slot, to: node) }
            underWay += step.parts
            if underWay.isEmpty {
                try #require(step.mustWait, "nothing is under way and nothing waits")
                step = pipeline.resume(on: known)
                continue
            }
            let part = underWay.remove(at: Int.random(in: 0..<underWay.count, using: &random))
            let waits = step.mustWait
            if Int.random(in: 0..<10, using: &random) == 0 {
                pipeline.withdrawn(part)
                step = ScatteredPipeline.Step(mustWait: true)
            } else {
                let answers = cluster.run(pipeline.commands(of: part), at: part.node, &random)
                step = pipeline.received(answers, of: part, on: known)
                step.mustWait = step.mustWait || waits
            }
        }
        #expect(pipeline.answers?.map(\.text) == keys)
        #expect(cluster.executed == Dictionary(uniqueKeysWithValues: keys.map { ($0, 1) }))
    }

    @Test func commandsAreGroupedByNodeInOrder() throws {
        var pipeline = try ScatteredPipeline((0..<30).map { RedisCommand("GET", .string("k\($0)")) })
        let step = pipeline.begin(on: threeMasters(), choice: 0)
        #expect(step.parts.count == 3)
        #expect(!step.mustWait)
        #expect(!step.isRefreshWanted)
        for part in step.parts { #expect(part.items == part.items.sorted()) }
        #expect(step.parts.flatMap(\.items).sorted() == Array(0..<30))
    }

    @Test func redirectionsAreBounded() throws {
        var pipeline = try ScatteredPipeline([RedisCommand("GET", "k")])
        var map = threeMasters()
        var step = pipeline.begin(on: map, choice: 0)
        for turn in 0..<ScatteredPipeline.redirectionLimit {
            let part = try #require(step.parts.first, "redirection \(turn) is followed")
            step = pipeline.received([.error("MOVED \(HashSlot.of("k".utf8)) h:\(turn + 1)")], of: part, on: map)
            for (slot, node) in step.moves { map.move(slot, to: node) }
            #expect(step.isRefreshWanted)
        }
        let part = try #require(step.parts.first)
        step = pipeline.received([.error("MOVED \(HashSlot.of("k".utf8)) h:9")], of: part, on: map)
        #expect(step.parts.isEmpty)
        #expect(pipeline.answers?.first?.serverError?.isRetriable == true)
    }

    @Test func anAskRedirectionSendsAskingAndKeepsTheSlotMap() throws {
        var pipeline = try ScatteredPipeline([RedisCommand("GET", "k"), RedisCommand("INCR", "k")])
        let map = threeMasters()
        let part = try #require(pipeline.begin(on: map, choice: 0).parts.first)
        let answer = RedisValue.error("ASK \(HashSlot.of("k".utf8)) h:1")
        let step = pipeline.received([answer, answer], of: part, on: map)
        #expect(step.moves.isEmpty)
        #expect(step.parts.count == 1)
        let asking = try #require(step.parts.first)
        #expect(
            pipeline.commands(of: asking) == [
                RedisCommand("ASKING"), RedisCommand("GET", "k"), RedisCommand("ASKING"), RedisCommand("INCR", "k"),
            ])
        _ = pipeline.received([.status("OK"), .integer(1), .status("OK"), .integer(2)], of: asking, on: map)
        #expect(pipeline.answers == [.integer(1), .integer(2)])
    }

    @Test func aCommandWithoutACheckOnItsMasterReturnsARetriableError() throws {
        let map = threeMasters()
        let keys = (0..<30).map { "k\($0)" }
        func pipeline(_ checks: [String]) throws -> ScatteredPipeline {
            try ScatteredPipeline((keys + checks).map { RedisCommand("GET", .string($0)) }, checks: checks.count)
        }
        // On two masters only.
        let hashTags = map.serving.compactMap { map.hashTags[$0] }
        var partly = try pipeline(hashTags.dropLast().map { "{\($0)}" })
        let step = partly.begin(on: map, choice: 0)
        #expect(step.parts.count == 2)
        #expect(step.isRefreshWanted)
        for part in step.parts {
            _ = partly.received(part.items.map { .integer(Int64($0)) }, of: part, on: map)
        }
        for (key, answer) in zip(keys, try #require(partly.answers)) {
            let isChecked = map.master(of: HashSlot.of(key.utf8)) != map.serving.last
            #expect((answer.serverError?.serverPrefix == "TRYAGAIN") != isChecked, "\(key)")
        }
        // Redirected, to be retried later, or never written: nothing is sent again.
        for fate in ["MOVED 1 h:1", "ASK 1 h:1", "TRYAGAIN x", "unsent"] {
            var whole = try pipeline(hashTags.map { "{\($0)}" })
            for part in whole.begin(on: map, choice: 0).parts {
                if fate == "unsent" {
                    whole.withdrawn(part)
                } else {
                    let step = whole.received(part.items.map { _ in .error(fate) }, of: part, on: map)
                    #expect(step.parts.isEmpty)
                    #expect(!step.mustWait)
                    #expect(step.isRefreshWanted != fate.hasPrefix("ASK"))
                }
            }
            #expect(try #require(whole.answers).allSatisfy { $0.serverError?.isRetriable == true }, "\(fate)")
        }
        // No master serves any slot.
        var nowhere = try pipeline(["c"])
        #expect(nowhere.begin(on: SlotMap(), choice: 0).parts.isEmpty)
        #expect(nowhere.answers != nil)
    }

    @Test func aCommandThatIsGivenUpReturnsItsLastError() throws {
        var pipeline = try ScatteredPipeline([RedisCommand("GET", "k"), RedisCommand("GET", "unserved")])
        var map = SlotMap()
        map.move(HashSlot.of("k".utf8), to: node(1))
        let step = pipeline.begin(on: map, choice: 0)
        #expect(step.mustWait)
        #expect(step.isRefreshWanted)
        _ = pipeline.received([.error("TRYAGAIN x")], of: step.parts[0], on: map)
        #expect(pipeline.answers == nil)
        pipeline.giveUp()
        #expect(pipeline.answers?.map { $0.serverError?.serverPrefix } == ["TRYAGAIN", "CLUSTERDOWN"])
    }

    @Test func repliesOfAllMastersAreMerged() throws {
        func time(_ seconds: Int64) -> RedisValue {
            .array(["\(seconds)", "5"].map { .string(ByteBuffer(string: $0)) })
        }
        var pipeline = try ScatteredPipeline([
            RedisCommand("TIME"), RedisCommand("DBSIZE"), RedisCommand("FLUSHALL"), RedisCommand("SCRIPT", "LOAD", "x"),
        ])
        let step = pipeline.begin(on: threeMasters(), choice: 0)
        #expect(step.parts.count == 3)
        #expect(step.parts.allSatisfy { $0.items.count == 4 })
        for (part, seconds) in zip(step.parts, [Int64(9), 10, 8]) {
            let answers: [RedisValue] = [
                time(seconds), .integer(seconds), seconds == 8 ? .error("ERR x") : .status("OK"),
                seconds == 8 ? .status("digest") : .error("ERR y"),
            ]
            _ = pipeline.received(answers, of: part, on: threeMasters())
        }
        #expect(pipeline.answers == [time(8), .integer(27), .error("ERR x"), .status("digest")])
    }

    @Test func anUnreachableMasterDoesNotFailCommandsToOthers() throws {
        let error = RedisError(.connection, "gone")
        var loading = try ScatteredPipeline([RedisCommand("SCRIPT", "LOAD", "x")])
        let parts = loading.begin(on: threeMasters(), choice: 0).parts
        loading.failed(parts[0], error)
        for part in parts.dropFirst() { _ = loading.received([.status("digest")], of: part, on: threeMasters()) }
        #expect(loading.answers == [.status("digest")])
        #expect(loading.totalFailure == nil)
        var reading = try ScatteredPipeline((0..<30).map { RedisCommand("GET", .string("k\($0)")) })
        let all = reading.begin(on: threeMasters(), choice: 0).parts
        reading.failed(all[1], error)
        #expect(reading.answers == nil, "the others are waited for")
        for part in [all[0], all[2]] {
            _ = reading.received(part.items.map { .integer(Int64($0)) }, of: part, on: threeMasters())
        }
        let answers = try #require(reading.answers)
        for (index, answer) in answers.enumerated() where !all[1].items.contains(index) {
            #expect(answer == .integer(Int64(index)))
        }
        let unanswered = all[1].items.compactMap { answers[$0].serverError }
        #expect(unanswered.count == all[1].items.count)
        #expect(unanswered.allSatisfy { $0.isRetriable })
        #expect(reading.totalFailure == nil)
    }

    @Test func aPipelineWithoutAnyReplyFails() throws {
        var pipeline = try ScatteredPipeline([RedisCommand("GET", "a"), RedisCommand("GET", "{a}b")])
        let part = try #require(pipeline.begin(on: threeMasters(), choice: 0).parts.first)
        pipeline.failed(part, RedisError(.timeout, "none in 2 s"))
        #expect(pipeline.answers != nil)
        #expect(pipeline.totalFailure?.code == .timeout)
    }
}

@Suite struct MapRefreshTests {
    private static func at(_ milliseconds: Int64) -> NIODeadline { .uptimeNanoseconds(0) + .milliseconds(milliseconds) }

    @Test func refreshRequestsAreCoalescedAndRateLimited() {
        var refresh = MapRefresh()
        #expect(refresh.wanted(now: Self.at(0)) == .begin)
        #expect(refresh.wanted(now: Self.at(0)) == .nothing)
        #expect(refresh.begin([node(1)]) == [node(1)])
        #expect(refresh.wanted(now: Self.at(1)) == .nothing)
        let isNews = refresh.succeeded(now: Self.at(2))
        #expect(isNews)
        let isNewsAgain = refresh.succeeded(now: Self.at(2))
        #expect(!isNewsAgain)
        #expect(refresh.failed(now: Self.at(2)) == .late)
        #expect(refresh.wanted(now: Self.at(3)) == .beginAt(Self.at(102)))
        #expect(refresh.wanted(now: Self.at(4)) == .nothing)
    }

    @Test func aRefreshQueriesThreeNodesConcurrentlyThenTheOthersThenBacksOff() {
        var refresh = MapRefresh()
        _ = refresh.wanted(now: Self.at(0))
        #expect(refresh.begin((1...5).map(node)) == (1...3).map(node))
        #expect(refresh.failed(now: Self.at(1)) == .ask(node(4)))
        #expect(refresh.failed(now: Self.at(1)) == .ask(node(5)))
        #expect(refresh.failed(now: Self.at(1)) == .wait)
        #expect(refresh.failed(now: Self.at(1)) == .wait)
        #expect(refresh.failed(now: Self.at(1)) == .beginAt(Self.at(201)))
        for pause in [401, 801, 1001, 1001] {
            _ = refresh.begin([node(1)])
            #expect(refresh.failed(now: Self.at(1)) == .beginAt(Self.at(Int64(pause))))
        }
    }
}
