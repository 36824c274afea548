import Redis

/// The scripts about pictures. All waiting pictures are in one slot, so that nothing is lost between two keys; the data
/// about a picture is in its own slot.
enum PictureScripts {
    /// Milliseconds of the server's clock: workers need not agree about the time.
    private static let now = """
        local time = redis.call('TIME')
        local now = time[1] * 1000 + math.floor(time[2] / 1000)

        """

    /// Replaces a picture's hash. KEYS: picture. ARGV: seconds to keep it, then field, value, …
    static let save = RedisScript(
        """
        redis.call('DEL', KEYS[1])
        redis.call('HSET', KEYS[1], unpack(ARGV, 2))
        redis.call('EXPIRE', KEYS[1], ARGV[1])
        return 1
        """)

    /// Notes orders that wait for a picture. A picture that is being fetched or waits for its next attempt keeps its
    /// time.
    ///
    /// KEYS: due, waiting. ARGV: picture, most pictures, then order, its waiting record, …
    /// Returns 1, or 0 if there are too many pictures.
    static let note = RedisScript(
        now + """
            if not redis.call('ZSCORE', KEYS[1], ARGV[1]) and redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then
              return 0
            end
            redis.call('HSET', KEYS[2], unpack(ARGV, 3))
            redis.call('ZADD', KEYS[1], 'NX', string.format('%.0f', now), ARGV[1])
            return 1
            """)

    /// Takes pictures that are due and postpones them until the end of the lease, which also identifies their owner.
    ///
    /// KEYS: due. ARGV: most pictures, milliseconds of the lease. Returns the total number of pictures, the lease, the
    /// pictures taken.
    static let claim = RedisScript(
        now + """
            local pictures = redis.call(
              'ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now), 'LIMIT', 0, ARGV[1])
            local lease = string.format('%.0f', now + ARGV[2])
            for _, picture in ipairs(pictures) do redis.call('ZADD', KEYS[1], lease, picture) end
            return {redis.call('ZCARD', KEYS[1]), lease, pictures}
            """)

    /// Postpones a picture if the lease is still valid. KEYS: due. ARGV: picture, lease, milliseconds from now.
    ///
    /// Returns the new time, which is a lease as well, or 0 if another worker has the picture.
    static let postpone = RedisScript(
        now + """
            if tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or '-1') ~= tonumber(ARGV[2]) then return '0' end
            local time = string.format('%.0f', now + ARGV[3])
            redis.call('ZADD', KEYS[1], time, ARGV[1])
            return time
            """)

    /// Removes a picture if no order waits for it; postpones it otherwise.
    ///
    /// KEYS: due, waiting. ARGV: picture, lease, milliseconds from now, '1' to dismiss the waiting orders.
    static let finish = RedisScript(
        now + """
            if tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or '-1') ~= tonumber(ARGV[2]) then return 0 end
            if ARGV[4] == '1' then redis.call('DEL', KEYS[2]) end
            if redis.call('HLEN', KEYS[2]) == 0 then
              redis.call('ZREM', KEYS[1], ARGV[1])
            else
              redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[3]), ARGV[1])
            end
            return 1
            """)

    /// Removes orders that have the picture they waited for. One that was noted again meanwhile stays.
    ///
    /// KEYS: waiting. ARGV: order, its waiting record, …
    static let removeWaiting = RedisScript(
        """
        for index = 1, #ARGV, 2 do
          if redis.call('HGET', KEYS[1], ARGV[index]) == ARGV[index + 1] then
            redis.call('HDEL', KEYS[1], ARGV[index])
          end
        end
        return 1
        """)
}
