import Model
import Redis

/// Slots that are moved between the masters of a cluster.
///
/// A master that gets its first slots has no epoch, and one that loses the slot of its hash tag has none under its next
/// hash tag, though nothing is lost: the keys were moved along with the slots. Such a shard is complete without being
/// restored. A server that lost keys must never count as complete. The evidence:
///
/// 1. While the view is complete each slot has a mark, a key that moves with the others of its slot, with the history
///    of its master. A slot without a mark lost its keys: by FLUSHALL, by a server that came back empty, or because it
///    was given to another master without them.
/// 2. A server with older data that still has the marks was restarted or was a replica, so it has another history. So
///    all masters that are named by marks must still have the same history after the slots have left them.
/// 3. The shard itself must have had one history since its slots arrived. If one of its marks is its own, it has had
///    this history since it was marked, thus since before those of other masters arrived. A master with its first slots
///    has no such mark: its server must have been running since before the whole view was last complete, without it,
///    and may never have taken over from another one (`master_replid2`). Redis forgets the latter after
///    `repl-backlog-ttl`, an hour, so the view must have been complete within the last minute.
///
/// A fail-over of a master while a slot is only half moved to it is not noticed, since Redis loses what had been moved
/// without a trace.
/// Source: Redis cluster specification; Redis 7.0 replication.c, `shiftReplicationId`, `clearReplicationId2`
extension MaterializedView {
    /// A master's slots and their marks, as the master reports them.
    struct SlotMarks: Hashable, Sendable {
        /// `<first>-<last>,…`
        var slots: String
        var history: String
        /// The distinct marks, separated by commas.
        var marks: String
        /// Slots without a mark.
        var unmarked = 0
        /// True if the server did not take over from another one.
        var isFirst = false
        var uptimeSeconds: Int64 = 0
        /// The time since the whole view was known to be complete; nil if the server has no record of that.
        var markedMillisecondsAgo: Int64?

        /// True for each slot that it serves; nil unless all are slots.
        var serves: [Bool]? {
            var serves = [Bool](repeating: false, count: HashSlot.count)
            for range in self.slots.split(separator: ",") {
                let ends = range.split(separator: "-").compactMap { Int($0) }
                guard ends.count == 2, 0 <= ends[0], ends[0] <= ends[1], ends[1] < HashSlot.count else { return nil }
                for slot in ends[0]...ends[1] { serves[slot] = true }
            }
            return serves
        }
    }

    /// The outcome of `confirmMoved`.
    public enum MoveVerdict: Hashable, Sendable {
        /// The shards are complete.
        case moved
        /// Servers and client do not agree on the slots, for example while they are being moved: try again.
        case unsettled
        /// Nothing proves that the shards have all of their keys.
        case refused
    }

    /// The longest time since the view was complete, in milliseconds.
    private static let memory: Int64 = 60_000
    /// More than the error of an uptime, which is in whole seconds.
    private static let uptimeError: Int64 = 2000

    /// Judges the shards that lack a valid epoch.
    ///
    /// - Parameters:
    ///   - all: the marks of all shards.
    ///   - open: indices of the shards without a valid epoch.
    static func judge(_ all: [SlotMarks], open: [Int]) -> MoveVerdict {
        var served = [Bool](repeating: false, count: HashSlot.count)
        for shard in all {
            guard let serves = shard.serves else { return .refused }
            for slot in serves.indices where serves[slot] {
                guard !served[slot] else { return .unsettled }
                served[slot] = true
            }
        }
        guard served.allSatisfy({ $0 }) else { return .unsettled }
        let histories = Set(all.map(\.history))
        guard !histories.contains("") else { return .refused }
        let complete = all.indices.filter { !open.contains($0) }
        let age = complete.compactMap { all[$0].markedMillisecondsAgo }.min()
        for shard in open.map({ all[$0] }) {
            let marks = Set(shard.marks.split(separator: ",").map(String.init))
            guard shard.unmarked == 0, marks.isSubset(of: histories) else { return .refused }
            // The slot of the keys that were read is being moved: its next master speaks for the one that serves it.
            guard !marks.isEmpty else { return .unsettled }
            if marks.contains(shard.history) { continue }
            guard let age, age <= Self.memory, shard.isFirst,
                shard.uptimeSeconds * 1000 >= age + Self.uptimeError
            else { return .refused }
        }
        return .moved
    }

    /// Declares shards complete that got all their keys from complete shards. Does nothing for a single server.
    ///
    /// - Parameters:
    ///   - shards: all of them.
    ///   - epoch: the name of the new epochs.
    public func confirmMoved(_ shards: [Shard], epoch: String) async throws(StoreError) -> MoveVerdict {
        let open = shards.indices.filter { shards[$0].epoch == nil || !shards[$0].isHere }
        let whole = shards.filter { $0.epoch != nil && $0.isHere }
        guard shards.allSatisfy({ $0.hashTag != nil && $0.plan == nil }), !open.isEmpty, !whole.isEmpty
        else { return .refused }
        let marks = try await self.slotMarks(of: shards)
        let verdict = Self.judge(marks, open: open)
        guard verdict == .moved else { return verdict }
        // After the marks were read: a slot was taken from a master before the history that is read here.
        guard try await self.look() == shards, shards.map(\.history) == marks.map(\.history) else { return .unsettled }
        // A tail says that everything before it was stored in all shards.
        let tails = whole.dropFirst().reduce(whole[0].tails) { tails, shard in
            tails.merging(shard.tails) { min($0, $1) }.filter { tails[$0.key] != nil && shard.tails[$0.key] != nil }
        }
        let pairs = Self.pairs(tails)
        let replies = try await self.run(
            open.map { index in
                let (shard, marks) = (shards[index], marks[index])
                return RedisInvocation(
                    StoreScripts.confirmMovedSlots,
                    keys: [
                        StoreKeys.epoch(shard.hashTag), StoreKeys.tails(shard.hashTag), StoreKeys.marked(shard.hashTag),
                    ],
                    arguments: [
                        .string(HashSlot.tags), Self.slot(of: shard), .string(marks.slots), .string(marks.history),
                        .string(marks.marks), .string(shard.epoch ?? ""),
                        .string(epoch),
                    ] + pairs)
            }, "confirming slots that were moved")
        return replies.allSatisfy { $0.integer == 1 } ? .moved : .unsettled
    }

    /// Marks all slots, if something about them changed. Does nothing for a single server.
    ///
    /// - Parameter shards: all of them, complete.
    /// - Returns: false if a master got slots without their keys; its shard is not complete as a result.
    public func markSlots(of shards: [Shard]) async throws(StoreError) -> Bool {
        guard shards.allSatisfy({ $0.hashTag != nil && $0.epoch != nil }) else { return true }
        let replies = try await self.markSlots(of: shards, tags: "")
        let open = zip(shards, replies).filter { $1 == 1 }.map(\.0)
        return try await !self.markSlots(of: open, tags: HashSlot.tags).contains(2)
    }

    private func markSlots(of shards: [Shard], tags: String) async throws(StoreError) -> [Int64?] {
        try await self.run(
            shards.map { shard in
                RedisInvocation(
                    StoreScripts.markSlots, keys: [StoreKeys.epoch(shard.hashTag), StoreKeys.marked(shard.hashTag)],
                    arguments: [.string(shard.epoch ?? ""), Self.slot(of: shard), .string(tags)])
            }, "marking slots"
        ).map(\.integer)
    }

    private static func slot(of shard: Shard) -> RedisArgument {
        .integer(Int64(HashSlot.of((shard.hashTag ?? "").utf8)))
    }

    func slotMarks(of shards: [Shard]) async throws(StoreError) -> [SlotMarks] {
        let replies = try await self.run(
            shards.map { shard in
                RedisInvocation(
                    StoreScripts.lookAtSlots, keys: [StoreKeys.epoch(shard.hashTag), StoreKeys.marked(shard.hashTag)],
                    arguments: [.string(HashSlot.tags), Self.slot(of: shard)])
            }, "reading the marks of slots")
        var all: [SlotMarks] = []
        for reply in replies {
            guard let parts = reply.array, parts.count == 7, let slots = parts[0].text, let history = parts[1].text,
                let marks = parts[2].text, let unmarked = parts[3].integer, let isFirst = parts[4].integer,
                let uptime = parts[5].integer, let age = parts[6].integer
            else { throw StoreError(.unavailable, "reading the marks of slots: an unexpected reply") }
            all.append(
                SlotMarks(
                    slots: slots, history: history, marks: marks, unmarked: Int(clamping: unmarked),
                    isFirst: isFirst == 1, uptimeSeconds: uptime, markedMillisecondsAgo: age < 0 ? nil : age))
        }
        return all
    }
}
