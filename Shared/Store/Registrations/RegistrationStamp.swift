import Cryptography

/// The position of a registration, or its end, in `waybill.registrations`, which decides between two that race.
///
/// Kafka is the source of truth, so its order decides: all records of one registration are in one partition, and Redis
/// keeps the one with the highest offset, in whichever order the gateways that wrote them reach Redis. A restored view
/// is then the same as the one that was lost.
/// Offsets are meaningless if one of them is not known, if they are of two partitions or clusters, and if the topic was
/// recreated and counts from 0 again. Races are a matter of seconds; so records of two partitions, and those more than
/// a minute apart, are ordered by the gateways' clocks instead.
public struct RegistrationStamp: Hashable, Sendable {
    /// The difference of two times, in milliseconds, up to which offsets decide.
    static let raceMilliseconds: Int64 = 60_000

    /// -1 if it is not known.
    public let offset: Int64
    /// The time when the gateway accepted the request, milliseconds since 1970.
    public let epochMilliseconds: Int64
    /// Names the partition and its cluster, in 8 hexadecimal digits; empty if they are not known.
    let origin: String

    /// - Parameter cluster: its identifier; empty if it is not known.
    public init(offset: Int64, epochMilliseconds: Int64, cluster: String = "", partition: Int32 = -1) {
        let name = cluster.isEmpty ? "" : SHA256.hex(Array("\(cluster)/\(partition)".utf8))
        self.init(offset: offset, epochMilliseconds: epochMilliseconds, origin: String(name.prefix(8)))
    }

    fileprivate init(offset: Int64, epochMilliseconds: Int64, origin: String) {
        self.offset = max(-1, offset)
        self.epochMilliseconds = max(0, min(epochMilliseconds, Self.always.epochMilliseconds))
        self.origin = origin
    }

    private init() {
        self.offset = -1
        self.origin = ""
        // 2^53 - 1, the highest number that Lua represents exactly.
        self.epochMilliseconds = 9_007_199_254_740_991
    }

    /// Newer than any stored stamp.
    static let always = RegistrationStamp()
}

extension RegistrationStamp {
    /// Parses a stamp: `<offset>:<moment>:<microsecond of registration>:<origin>`. The third part is empty except on
    /// the device's side. Stamps without an origin end before it, or after the moment.
    ///
    /// - Returns: nil for a value that is not ours.
    static func read(_ value: String) -> (stamp: RegistrationStamp, registeredEpochMicroseconds: Int64?)? {
        let parts = parts(value)
        guard (2...4).contains(parts.count), let offset = Int64(parts[0]), let moment = Int64(parts[1])
        else { return nil }
        let origin = parts.count == 4 ? String(parts[3]) : ""
        let stamp = RegistrationStamp(offset: offset, epochMilliseconds: moment, origin: origin)
        return (stamp, parts.count >= 3 ? Int64(parts[2]) : nil)
    }
}
