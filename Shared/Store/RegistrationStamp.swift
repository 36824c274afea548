/// Where a registration, or its end, stands in `waybill.registrations`: what decides between two that race.
///
/// Kafka is the truth, so its order is the order: all records of one registration lie in one partition, and Redis keeps
/// what has the highest offset, in whichever order the gateways that wrote them come to Redis. A restored view is then
/// the same as the one that was lost.
/// Offsets say nothing when one of them is not known, and when the topic was made anew and counts from 0 again. Races
/// are a matter of seconds; so what lies more than a minute apart is ordered by the gateways' clocks instead.
public struct RegistrationStamp: Hashable, Sendable {
    /// How close two moments must be for offsets to decide, in milliseconds.
    static let raceMilliseconds: Int64 = 60_000

    /// -1 if it is not known.
    public let offset: Int64
    /// When the gateway took the request, milliseconds since 1970.
    public let epochMilliseconds: Int64

    public init(offset: Int64, epochMilliseconds: Int64) {
        self.offset = max(-1, offset)
        self.epochMilliseconds = max(0, min(epochMilliseconds, Self.always.epochMilliseconds))
    }

    private init() {
        self.offset = -1
        // 2^53 - 1, the highest number that Lua knows exactly.
        self.epochMilliseconds = 9_007_199_254_740_991
    }

    /// Newer than all that stands.
    static let always = RegistrationStamp()
}

extension RegistrationStamp {
    /// A value of the hashes of stamps: `<offset>:<moment>`, with the device also `:<microsecond of registration>`.
    ///
    /// - Returns: nil for a value that is not ours.
    static func read(_ value: String) -> (stamp: RegistrationStamp, registeredEpochMicroseconds: Int64?)? {
        let parts = value.split(separator: ":", omittingEmptySubsequences: false)
        guard (2...3).contains(parts.count), let offset = Int64(parts[0]), let moment = Int64(parts[1])
        else { return nil }
        let stamp = RegistrationStamp(offset: offset, epochMilliseconds: moment)
        return (stamp, parts.count == 3 ? Int64(parts[2]) : nil)
    }
}
