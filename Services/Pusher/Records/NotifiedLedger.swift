import Kafka
import Model
import Store
import Synchronization

/// The positions up to which earlier processes notified devices, and those that this process commits.
///
/// A group that lost its offsets, or whose topic was read out of range, gets every record again; those that a mark
/// covers are done immediately. Marks follow the commits by a second or two, so devices may be notified of a record
/// again, and no record of which they were not notified is skipped.
/// Thread: any. Bounded: a mark for each partition.
final class NotifiedLedger: Sendable {
    private struct State {
        /// The marks of earlier processes, by name of the partition, until the cluster is known.
        var learnt: [String: NotifiedPositions.Mark] = [:]
        /// The identifier of the cluster that records come from; nil before the first record.
        var cluster: String?
        /// The marks of that cluster.
        var known: [Int32: NotifiedPositions.Mark] = [:]
        /// Positions that were committed since the last call of `takeCommitted`.
        var committed: [Int32: Int64] = [:]

        func covers(_ record: KafkaRecord, of topic: String) -> Bool {
            guard record.topic == topic, let mark = self.known[record.partition] else { return false }
            return mark.covers(offset: record.offset, epochMilliseconds: record.timestampMilliseconds)
        }

        /// Selects the marks of the cluster that records come from. Without an identifier there are none: one cluster's
        /// offsets would be taken for another's.
        mutating func meet(_ cluster: String, topic: String) {
            guard self.cluster != cluster else { return }
            self.cluster = cluster
            self.known = [:]
            guard !cluster.isEmpty else { return }
            for (name, mark) in self.learnt {
                let head = NotifiedPositions.name(cluster: cluster, topic: topic)
                guard name.hasPrefix(head), let partition = Int32(name.dropFirst(head.count)) else { continue }
                self.known[partition] = mark
            }
        }
    }

    private let state = Mutex(State())
    private let topic: String

    /// - Parameter topic: that of the orders; a registration contains the time that shows if it is new.
    init(topic: String) { self.topic = topic }

    /// Sets the marks of earlier processes, before the first record arrives.
    func learn(_ marks: [String: NotifiedPositions.Mark]) { self.state.withLock { $0.learnt = marks } }

    /// Separates the records whose devices were notified before from the others.
    func sift(_ records: [KafkaRecord]) -> (again: [KafkaRecord], open: [KafkaRecord]) {
        self.state.withLock { state in
            if let cluster = records.first?.cluster { state.meet(cluster, topic: self.topic) }
            guard records.contains(where: { state.covers($0, of: self.topic) }) else { return ([], records) }
            return (
                records.filter { state.covers($0, of: self.topic) },
                records.filter { !state.covers($0, of: self.topic) }
            )
        }
    }

    /// Notes committed positions; does not block.
    func committed(_ positions: [KafkaPosition]) {
        self.state.withLock { state in
            for position in positions where position.topic == self.topic {
                state.committed[position.partition] = position.offset
            }
        }
    }

    /// Returns the marks to write, each once.
    func takeCommitted(nowMilliseconds: Int64) -> [String: NotifiedPositions.Mark] {
        self.state.withLock { state in
            guard let cluster = state.cluster, !cluster.isEmpty else { return [:] }
            let head = NotifiedPositions.name(cluster: cluster, topic: self.topic)
            var marks: [String: NotifiedPositions.Mark] = [:]
            // A group that starts again commits positions that the marks already cover.
            for (partition, offset) in state.committed where offset > state.known[partition]?.offset ?? -1 {
                let mark = NotifiedPositions.Mark(offset: offset, epochMilliseconds: nowMilliseconds)
                state.known[partition] = mark
                marks["\(head)\(partition)"] = mark
            }
            state.committed = [:]
            return marks
        }
    }
}
