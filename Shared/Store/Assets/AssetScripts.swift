import Redis

/// The scripts about assets. An asset and its mark as unused are in one slot.
///
/// The mark is `<milliseconds of the server's clock>:<history of the server>`. Packaging with an asset removes it; only
/// an asset that kept its mark through the grace period, on a server that lost nothing meanwhile, is deleted.
extension StoreScripts {
    /// Checks that an asset exists, and removes its mark as unused.
    ///
    /// KEYS: asset, mark. Returns 1 if it exists, else 0.
    static let useAsset = RedisScript(
        """
        if redis.call('EXISTS', KEYS[2]) == 1 then redis.call('DEL', KEYS[2]) end
        return redis.call('EXISTS', KEYS[1])
        """)

    /// Marks or deletes an asset after a scan of all orders found none that names it.
    ///
    /// A server that does not report its history keeps all assets: it would go unnoticed that it forgot which orders
    /// use them.
    /// KEYS: asset, mark. ARGV: the millisecond, of this server's clock, before which the mark must have been set for
    /// the asset to be deleted; milliseconds to keep a mark.
    /// Returns 0 if nothing is to be done, 1 if the asset is now marked, 2 if it waits, and -1 - its bytes if it was
    /// deleted.
    static let sweepAsset = RedisScript(
        Self.history + """
            local here = history()
            local size = here ~= '' and redis.call('EXISTS', KEYS[1]) == 1 and #redis.call('GET', KEYS[1])
            if not size then return 0 end
            local since, of = string.match(redis.call('GET', KEYS[2]) or '', '^(%d+):(.*)$')
            if since and of == here then
              if tonumber(since) > tonumber(ARGV[1]) then return 2 end
              redis.call('DEL', KEYS[1], KEYS[2])
              return -1 - size
            end
            local time = redis.call('TIME')
            local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
            -- First, so that a Redis that is full takes it.
            redis.call('DEL', KEYS[2])
            redis.call('SET', KEYS[2], now .. ':' .. here, 'PX', ARGV[2])
            return 1
            """)

    /// Claims the sweep for one of the packagers, or renews its lease. The first sweep is due after a period.
    ///
    /// KEYS: sweep. ARGV: owner, milliseconds of the lease, milliseconds of the period. Returns 1 if the owner has the
    /// sweep; 0 if another owner has it, or it is not due.
    static let claimSweep = RedisScript(
        Self.clock + """
            local standing = redis.call('HMGET', KEYS[1], 'due', 'owner', 'lease')
            local due, lease = tonumber(standing[1] or ''), tonumber(standing[3] or '') or 0
            if not due and not standing[2] then
              redis.call('DEL', KEYS[1])
              redis.call('HSET', KEYS[1], 'due', string.format('%.0f', now + ARGV[3]))
              return 0
            end
            if due and due > now or standing[2] and standing[2] ~= ARGV[1] and lease > now then return 0 end
            redis.call('DEL', KEYS[1])
            redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'lease', string.format('%.0f', now + ARGV[2]))
            return 1
            """)

    /// Sets the time of the next sweep. KEYS: sweep. ARGV: owner, milliseconds until then. Returns 1, or 0 if another
    /// owner has the sweep by now.
    static let endSweep = RedisScript(
        Self.clock + """
            if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
            redis.call('DEL', KEYS[1])
            redis.call('HSET', KEYS[1], 'due', string.format('%.0f', now + ARGV[2]))
            return 1
            """)
}
