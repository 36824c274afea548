import Kafka
import Model
import Store

/// The records to read in a restore: both compacted topics, from the offsets up to which Redis certainly has
/// everything, to their ends.
enum RestorePlan {
    /// Returns the name of a partition in jobs.
    static func name(_ topic: String, _ partition: Int32) -> String { "\(topic)/\(partition)" }

    /// Returns the name of a topic or a partition in tails: offsets of one cluster say nothing about another one.
    static func tail(_ name: String, in cluster: String) -> String { "\(cluster)/\(name)" }

    /// Returns the partition that a name denotes.
    static func partition(_ name: String) -> (topic: String, partition: Int32)? {
        guard let slash = name.lastIndex(of: "/"), let partition = Int32(name[name.index(after: slash)...])
        else { return nil }
        return (String(name[..<slash]), partition)
    }

    /// Returns one job for each partition.
    ///
    /// - Parameters:
    ///   - bounds: the bounds of each topic's partitions.
    ///   - cluster: the cluster of the topics.
    ///   - tails: the tails of each place. Records that one place has and another lacks must be read; a tail outside
    ///     its partition belongs to a topic that was recreated.
    static func jobs(
        _ bounds: [String: [OffsetRange]], in cluster: String, tails: [[String: Int64]]
    ) -> [RestoreJobQueue.Job] {
        bounds.sorted { $0.key < $1.key }.flatMap { topic, partitions in
            partitions.map { bounds in
                let name = Self.name(topic, bounds.partition)
                let lowest = tails.map { $0[Self.tail(name, in: cluster)] ?? bounds.first }.min() ?? bounds.first
                let isWithin = (bounds.first...max(bounds.first, bounds.end)).contains(lowest)
                var job = RestoreJobQueue.Job(name: name, from: isWithin ? lowest : bounds.first, to: bounds.end)
                job.isDone = job.from >= job.to
                return job
            }
        }
    }

    /// Returns the offsets below which Redis has everything once all jobs are done; an awaited order holds its
    /// partition back.
    ///
    /// - Parameter types: the awaited types.
    static func tails(
        _ jobs: [RestoreJobQueue.Job], in cluster: String, awaiting types: Set<OrderTypeIdentifier>
    ) -> [String: Int64] {
        Dictionary(
            jobs.map { job in
                let name = Self.tail(job.name, in: cluster)
                guard let awaited = job.awaited, !awaited.types.isDisjoint(with: types) else { return (name, job.to) }
                return (name, awaited.offset)
            }, uniquingKeysWith: { first, _ in first })
    }

    /// Returns the tails that may advance while orders of some types are awaited; the others stay as they are.
    ///
    /// - Parameters:
    ///   - certain: offsets that have become certain.
    ///   - ordersTopic: the topic of the awaited orders, by its name in tails.
    ///   - places: the tails of each place; a tail that one place lacks is left out of all.
    static func tails(
        _ certain: [String: Int64], holding ordersTopic: String, as places: [[String: Int64]]
    ) -> [String: Int64] {
        var tails = certain
        for name in certain.keys where Self.partition(name)?.topic == ordersTopic {
            let held = places.map { $0[name] }
            tails[name] = held.contains(nil) ? nil : held.compactMap(\.self).min()
        }
        return tails
    }
}
