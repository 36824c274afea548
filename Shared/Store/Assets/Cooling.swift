public import Model
import Redis

/// Decides which orders are cold: those that nobody is likely to ask for.
///
/// Redis keeps of a cold order the fields that answer "not modified" and list it, and the place of its last record. A
/// reader reads the record, and a writer writes all of the order: so a change or a fetch warms it. The record is read
/// before: see `cool` of `OrderStore`.
public struct Cooling: Hashable, Sendable {
    /// The age of an order that ended from which on it is cold, in seconds.
    static let endedSeconds: Int64 = 86_400

    private let seconds: Int64?

    /// - Parameter after: the age of any other order; nil if none is ever cold.
    public init(after: Duration?) { self.seconds = after?.components.seconds }

    /// Returns the UNIX seconds before which an order is cold, and before which one is that ended; 0 for none.
    func moments(nowEpochSeconds now: Int64) -> (any: Int64, ended: Int64) {
        guard let seconds else { return (0, 0) }
        return (max(0, now - seconds), max(0, now - min(seconds, Self.endedSeconds)))
    }

    /// Returns true for an order that nobody asked for since its version was published.
    public func isCold(_ state: OrderState, nowEpochSeconds now: Int64) -> Bool {
        let moments = self.moments(nowEpochSeconds: now)
        return state.modifiedEpochSeconds < (state.document.isEnded ? moments.ended : moments.any)
    }
}

extension StoreScripts {
    /// Looks at an order whose version may be old, and asked for by nobody since: drops the package of one that cannot
    /// cool, and finds those that can. The digest of its content stays with its document.
    ///
    /// An order can cool if its last record certainly has all of it: it is acknowledged, and nothing was written since.
    /// KEYS: the order. ARGV: the UNIX second before which it is cold, the same for one that ended.
    /// Returns 2 if it is cold already; for one that is to cool 1 if its package was dropped, else 0, and the list of
    /// its assets; for any other the list of its assets, or nil for none.
    static let judge = RedisScript(
        Self.dropPackage + Self.revised + """
            local values = redis.call('HMGET', KEYS[1], 'assets', 'modified', 'requested', 'record', 'version',
              'unpublished', 'removed', 'revision')
            local record = values[4] or ''
            local last = math.max(tonumber(values[2] or '') or 0, tonumber(values[3] or '') or 0)
            local isEnded = string.sub(record, -6) == ':ended'
            if not values[5] or values[7] or last >= tonumber(isEnded and ARGV[2] or ARGV[1]) then return values[1] end
            local isPlace = string.match(record, '^%d')
            if redis.call('HEXISTS', KEYS[1], 'document') == 0 then return isPlace and 2 or values[1] end
            if isPlace and not values[6] or not values[1] then return {0, values[1] or ''} end
            dropPackage(true)
            redis.call('HSET', KEYS[1], 'revision', revised(values[8]))
            return {1, ''}
            """)
}
