public import Model
import Redis

/// Decides which orders are cold: those that nobody is likely to ask for.
///
/// Redis keeps of a cold order the fields that answer "not modified" and list it, and the place of its last record. A
/// reader reads the record, and a writer writes all of the order: so a change or a fetch warms it.
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
    /// Cools an order, or drops its package, if its version is old and nobody asked for it since. The digest of its
    /// content stays with its document.
    ///
    /// An order is cooled only if its last record certainly has all of it: it is acknowledged, and nothing was
    /// written since.
    /// KEYS: the order. ARGV: the UNIX second before which it is cold, the same for one that ended.
    /// Returns 1 if its package was dropped, 2 if it is cold; else the list of its assets, or nil for none.
    static let cool = RedisScript(
        Self.dropPackage + """
            local values = redis.call('HMGET', KEYS[1], 'assets', 'modified', 'requested', 'record', 'version', 'told',
              'unpublished', 'removed', 'token', 'stamp', 'revision')
            local record = values[4] or ''
            local last = math.max(tonumber(values[2] or '') or 0, tonumber(values[3] or '') or 0)
            local isEnded = string.sub(record, -6) == ':ended'
            if not values[5] or values[8] or last >= tonumber(isEnded and ARGV[2] or ARGV[1]) then return values[1] end
            local isWhole = values[9] and values[10] and values[11]
            if string.match(record, '^%d') and values[6] == values[5] and not values[7] and isWhole then
              if redis.call('HEXISTS', KEYS[1], 'document') == 0 then return 2 end
              redis.call('DEL', KEYS[1])
              redis.call('HSET', KEYS[1], 'token', values[9], 'modified', values[2], 'version', values[5],
                'stamp', values[10], 'revision', values[11], 'told', values[6], 'record', record)
              return 2
            end
            if last >= tonumber(ARGV[1]) or not values[1] then return values[1] end
            dropPackage(true)
            return 1
            """)
}
