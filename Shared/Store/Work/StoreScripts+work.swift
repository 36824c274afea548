import Redis

/// Marks of work are a hash: `<worker>` -> `<millisecond>:`, its last beat, and `<worker>#<slot>` ->
/// `<millisecond>:<digests of 8 bytes>`, the keys of its last batch there. A worker is `<instance>@<random>`. Suspects
/// are a hash as well: digest -> `<beginnings> <place>`. Source: Design §4.4
extension StoreScripts {
    /// Sets a mark, or a beat.
    ///
    /// KEYS: marks. ARGV: field, digests.
    static let markWork = RedisScript(
        Self.millisecond + """
            return redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', now) .. ':' .. ARGV[2])
            """)

    /// Makes suspects of the marks of workers that ended: those without a beat, and earlier ones of the caller's
    /// instance. A key that is a suspect keeps its beginnings.
    ///
    /// KEYS: marks, suspects. ARGV: the caller, its instance, the milliseconds without a beat, those for which marks
    /// and suspects are kept, the most suspects. Returns all suspects.
    static let examineWork = RedisScript(
        Self.millisecond + """
            local all = redis.call('HGETALL', KEYS[1])
            local beats = {}
            for i = 1, #all, 2 do
              local worker = all[i]:match('^[^#]*')
              local time = tonumber(all[i + 1]:match('^%d+')) or 0
              beats[worker] = math.max(beats[worker] or 0, time)
            end
            local room = tonumber(ARGV[5]) - redis.call('HLEN', KEYS[2])
            local isNew = false
            for i = 1, #all, 2 do
              local worker = all[i]:match('^[^#]*')
              local instance = worker:match('^(.*)@')
              local isEarlier = ARGV[2] ~= '' and instance == ARGV[2]
              if worker ~= ARGV[1] and (isEarlier or beats[worker] < now - tonumber(ARGV[3])) then
                local time, digests = all[i + 1]:match('^(%d+):(.*)$')
                if time and tonumber(time) > now - tonumber(ARGV[4]) then
                  for at = 1, #digests - 7, 8 do
                    if room <= 0 then break end
                    local digest = digests:sub(at, at + 7)
                    if redis.call('HEXISTS', KEYS[2], digest) == 0 then
                      redis.call('HSET', KEYS[2], digest, '0 ')
                      room, isNew = room - 1, true
                    end
                  end
                end
                redis.call('HDEL', KEYS[1], all[i])
              end
            end
            if isNew then redis.call('EXPIRE', KEYS[2], ARGV[4] / 1000) end
            return redis.call('HGETALL', KEYS[2])
            """)

    private static let millisecond = """
        local time = redis.call('TIME')
        local now = time[1] * 1000 + math.floor(time[2] / 1000)

        """
}
