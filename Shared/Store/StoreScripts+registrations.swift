import Redis

/// The two sides of a registration are two hashes in different slots: order -> its devices, and device -> its orders.
/// The same scripts change both. A value is `<offset>:<moment>:<rest>`, where offset and moment are its
/// `RegistrationStamp`; beside each hash stands one of registrations that ended, with the same stamps, for an hour.
extension StoreScripts {
    /// Whether what stands is newer than what is asked for, by the rule of `RegistrationStamp`.
    private static let isNewer = """
        local function isNewer(standing)
          local offset, moment = string.match(standing or '', '^(-?%d+):(%d+):')
          if not offset then return false end
          offset, moment = tonumber(offset), tonumber(moment)
          local ownOffset, ownMoment = tonumber(ARGV[2]), tonumber(ARGV[3])
          if offset < 0 or ownOffset < 0 or math.abs(moment - ownMoment) > \(RegistrationStamp.raceMilliseconds) then
            return moment > ownMoment
          end
          return offset > ownOffset
        end

        """

    /// Puts a field in, unless something newer stands there or ended there.
    ///
    /// KEYS: the hash, that of ends. ARGV: field, offset, moment, rest; `*` as the rest stands for microseconds of the
    /// server's clock, which stay those of the first time.
    /// Returns 1 if the field stood there already, else 0.
    static let register = RedisScript(
        Self.isNewer + """
        local standing = redis.call('HGET', KEYS[1], ARGV[1])
        local existed = standing and 1 or 0
        if isNewer(standing) or isNewer(redis.call('HGET', KEYS[2], ARGV[1])) then return existed end
        local rest = ARGV[4]
        if rest == '*' then
          rest = standing and string.match(standing, '^-?%d+:%d+:(%d+)$')
          if not rest then
            local time = redis.call('TIME')
            rest = string.format('%.0f', time[1] * 1000000 + time[2])
          end
        end
        redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ':' .. ARGV[3] .. ':' .. rest)
        redis.call('HDEL', KEYS[2], ARGV[1])
        return existed
        """)

    /// Takes a field out, unless something newer stands there, and remembers that.
    ///
    /// KEYS: the hash, that of ends. ARGV: field, offset, moment, seconds to remember it, 0 for not at all.
    /// Returns 1 if the field is not there now, 0 if it stays.
    static let unregister = RedisScript(
        Self.isNewer + """
        if isNewer(redis.call('HGET', KEYS[1], ARGV[1])) then return 0 end
        redis.call('HDEL', KEYS[1], ARGV[1])
        if ARGV[4] == '0' or isNewer(redis.call('HGET', KEYS[2], ARGV[1])) then return 1 end
        redis.call('HSET', KEYS[2], ARGV[1], ARGV[2] .. ':' .. ARGV[3] .. ':')
        redis.call('EXPIRE', KEYS[2], ARGV[4])
        return 1
        """)

    /// Takes a registration off if it still is the one that was read.
    ///
    /// KEYS: the order's devices. ARGV: device, registration as text.
    /// Returns what stood there if it was taken off, else nil.
    static let retire = RedisScript(
        """
        local standing = redis.call('HGET', KEYS[1], ARGV[1])
        if not standing or string.match(standing, '^-?%d+:%d+:(.*)$') ~= ARGV[2] then return false end
        redis.call('HDEL', KEYS[1], ARGV[1])
        return standing
        """)
}
