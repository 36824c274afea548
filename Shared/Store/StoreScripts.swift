import Redis

/// The scripts that change Redis. Each touches one slot.
enum StoreScripts {
    /// Writes an order's hash if nobody has written it since it was read.
    ///
    /// What is compared is the revision, which each write moves, and not the version, which a write of positions leaves
    /// alone: else a worker that lost its partition could take back the positions of its successor, and with them a
    /// change that said nothing new.
    /// The stamp comes from the server's clock inside the script, where nothing else runs, and grows with each version:
    /// whatever becomes visible later has a higher one.
    /// KEYS: the order. ARGV: expected revision (0: none), mode, seconds to keep a removed order, then field, value, …
    /// What is unannounced stays so: who wrote it may publish later than the version that follows, and only then can
    /// anybody tell that the last record is the right one.
    /// Returns 1 if written, 0 if the revision differs.
    static let write = RedisScript(
        """
        local current = redis.call('HGET', KEYS[1], 'revision') or '0'
        if current ~= ARGV[1] then return 0 end
        local revision = string.format('%.0f', current + 1)
        if ARGV[2] == 'positions' then
          redis.call('HSET', KEYS[1], 'revision', revision, unpack(ARGV, 4))
          return 1
        end
        local time = redis.call('TIME')
        local stamp = time[1] * 1000000 + time[2]
        local last = tonumber(redis.call('HGET', KEYS[1], 'stamp') or '0') or 0
        if stamp <= last then stamp = last + 1 end
        local unannounced = redis.call('HGET', KEYS[1], 'unannounced')
        redis.call('DEL', KEYS[1])
        if unannounced then redis.call('HSET', KEYS[1], 'unannounced', unannounced) end
        redis.call(
          'HSET', KEYS[1], 'revision', revision, 'stamp', string.format('%.0f', stamp), unpack(ARGV, 4))
        if ARGV[2] == 'removal' then redis.call('EXPIRE', KEYS[1], ARGV[3]) end
        return 1
        """)

    /// Takes the mark off an order whose version is announced, unless another one was set meanwhile.
    ///
    /// KEYS: the order. ARGV: the mark.
    /// Returns 1 if it was taken off, else 0.
    static let settle = RedisScript(
        """
        if redis.call('HGET', KEYS[1], 'unannounced') ~= ARGV[1] then return 0 end
        return redis.call('HDEL', KEYS[1], 'unannounced')
        """)
}
