import Kafka
import Model
import Packaging
import Store
import TestKit
import Testing

@testable import Packager

/// The conditions that must hold at the end, no matter how often workers died.
extension CrashFixture {
    /// Compares Redis, the compacted topic, the dead letters and the registrations with what the changes mean.
    ///
    /// - Parameters:
    ///   - repeats: how often a worker may have repeated finished work: the number of deaths and lost partitions.
    ///   - mayFallBack: a worker that lost its partition may publish an old version after a newer one; the current
    ///     version must then be published again.
    func expectSame(as log: [CrashChange], repeats: Int, mayFallBack: Bool = false) async throws {
        let changes = Dictionary(grouping: log, by: \.order)
        let orders = changes.keys.sorted()
        let published = try await self.published()
        let versions = Dictionary(grouping: published[self.topics.orders] ?? [], by: \.keyText)
        let ended = Set((published[self.topics.registrations] ?? []).filter { $0.value == nil }.map(\.keyText))
        let keys = try orders.map { try ChangeLog.key($0) }
        let registered = try await Registrations(redis: self.redis).devices(of: keys)
        let standing = try await OrderStore(redis: self.redis).orders(keys)
        var refused: [CrashChange] = []
        var early: [CrashChange] = []
        for (place, key) in keys.enumerated() {
            let reference = CrashChange.fold(changes[orders[place]] ?? [])
            refused += reference.refused
            early += reference.early
            let stored = try standing[place].get()
            let records = versions["\(key)"] ?? []
            self.expect(stored, is: reference.order, key)
            try self.expectVersions(records, of: key, repeats: repeats, mayFallBack: mayFallBack)
            try self.expect(records.last, tells: stored, key)
            guard orders[place].hasPrefix("gone") else { continue }
            #expect(stored?.state.isRemoved == true, "\(key)")
            #expect(registered[place].isEmpty, "\(key)")
            for device in Self.devices { #expect(ended.contains("\(device)/\(key)")) }
        }
        try self.expectLetters(
            published[self.topics.deadLetters] ?? [], about: refused, perhaps: early, repeats: repeats)
        let ends = try await self.admin.endOffsets(self.topics.orderChanges)
        let committed = try await self.admin.committed(group: Packager.group, topic: self.topics.orderChanges)
        #expect(committed == ends.filter { $0.value > 0 || committed[$0.key] != nil })
        #expect(ends.values.reduce(0, +) == Int64(log.count))
    }

    private func expect(_ stored: OrderStore.StoredOrder?, is order: JSON, _ key: OrderKey) {
        let document = stored.flatMap { $0.state.isRemoved ? nil : JSON.object($0.state.document.members) } ?? .null
        #expect(document == order, "\(key) is not what its changes make of it")
    }

    /// Expects that no two contents share a version, and that `updatedAt` grows with each.
    private func expectVersions(
        _ records: [KafkaRecord], of key: OrderKey, repeats: Int, mayFallBack: Bool
    ) throws {
        var contents: [Int64: OrderRecord] = [:]
        var last: Int64 = 0
        for value in records.compactMap(\.value) {
            var told = try OrderRecord.decode(value)
            // A change that said nothing new advances these under the same version.
            told.positions = AppliedPositions()
            told.recent = RecentChanges()
            #expect(contents[told.version] ?? told == told, "\(key): version \(told.version) was given twice")
            contents[told.version] = told
            if !mayFallBack { #expect(told.version >= last, "\(key): version \(told.version) behind \(last)") }
            last = told.version
        }
        let modified = contents.sorted { $0.key < $1.key }.map(\.value.modifiedEpochSeconds)
        #expect(zip(modified, modified.dropFirst()).allSatisfy(<), "\(key): updatedAt does not grow: \(modified)")
        // A version that was never published died with its worker, or was a removal, which has no number there.
        let removals = records.count { $0.value == nil }
        let missing = (contents.keys.map(\.ordinal).max() ?? 0) - Int64(contents.count)
        #expect(missing <= Int64(repeats + removals), "\(key): \(missing) versions were never published")
    }

    private func expect(_ record: KafkaRecord?, tells stored: OrderStore.StoredOrder?, _ key: OrderKey) throws {
        guard let stored else {
            #expect(record == nil, "\(key) was published and does not stand in Redis")
            return
        }
        let record = try #require(record, "\(key) stands in Redis and was never published")
        guard !stored.state.isRemoved else {
            #expect(record.value == nil, "\(key) is removed, and its last record is no tombstone")
            return
        }
        let told = try OrderRecord.decode(try #require(record.value, "\(key) stands, its last record is a tombstone"))
        var state = told.state(key: key)
        for partition in Int32(0)..<4 {
            let known = stored.state.positions.position(inPartition: partition)?.offset ?? -1
            #expect(known >= state.positions.position(inPartition: partition)?.offset ?? -1, "\(key)")
        }
        // A change that said nothing new advances them in Redis only.
        state.positions = stored.state.positions
        state.recent = stored.state.recent
        #expect(state == stored.state, "\(key): the last record is not what stands in Redis")
        #expect(told.content == (stored.isPackaged ? stored.content : nil))
    }

    /// Expects a dead letter for each change that cannot be applied; a worker that dies after sending one repeats it.
    private func expectLetters(
        _ letters: [KafkaRecord], about refused: [CrashChange], perhaps early: [CrashChange], repeats: Int
    ) throws {
        var values: [String: [UInt8]] = [:]
        var counts: [String: Int] = [:]
        for letter in letters where letter.header(RecordHeader.error.rawValue) != nil {
            let origin = try #require(letter.header(RecordHeader.origin.rawValue))
            values[origin] = letter.value ?? []
            counts[origin, default: 0] += 1
        }
        func count(_ values: [[UInt8]]) -> [[UInt8]: Int] { Dictionary(grouping: values) { $0 }.mapValues(\.count) }
        let found = count(Array(values.values))
        let expected = count(try refused.map { try $0.message(topic: "").value ?? [] })
        let possible = count(try (refused + early).map { try $0.message(topic: "").value ?? [] })
        let missing = expected.filter { found[$0.key, default: 0] < $0.value }.keys
        let wrong = found.filter { $0.value > possible[$0.key, default: 0] }.keys
        #expect(missing.isEmpty, "no letter: \(missing.map { String(decoding: $0, as: UTF8.self) })")
        #expect(wrong.isEmpty, "a letter: \(wrong.map { String(decoding: $0, as: UTF8.self) })")
        #expect(counts.values.allSatisfy { $0 <= 1 + repeats }, "\(counts)")
    }
}
