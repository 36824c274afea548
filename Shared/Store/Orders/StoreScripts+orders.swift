import Redis

/// The scripts that write and read orders, and note which of their versions were published.
extension StoreScripts {
    /// Writes an order's hash if it has not been written since it was read.
    ///
    /// The comparison uses the revision, which changes with each write, and not the version, which a write of positions
    /// leaves unchanged: else a worker that lost its partition could take back the positions of its successor, and with
    /// them a change without new content. It is a moment, not a count: a Redis that falls back to before a write
    /// must not use the revision of that write again, since a stalled worker may have seen it.
    /// The stamp comes from the server's clock inside the script, where nothing else runs, and grows with each version:
    /// anything that becomes visible later has a higher one.
    /// The trace of a removed order, and changes that wait, end with the version that creates the order; it may have
    /// those of the changes again whose dead letters are not closed yet.
    /// KEYS: the order, the long-lived trace of a removed one. ARGV: expected revision (0: none), mode, seconds to keep
    /// an order that does not exist, the last millisecond at which it may be written (0: any): a packager that took
    /// longer may name an asset that was swept meanwhile; then field, value, …
    /// An unpublished version remains marked: its writer may publish it later than the version that follows, and only
    /// after that can it be checked that the last record is the right one.
    /// Returns 1 if written, 0 if the revision differs; an error `OOM` if Redis is full and the order would grow.
    static let write = RedisScript(
        Self.dropPackage + Self.put + """
            local standing = redis.call(
              'HMGET', KEYS[1], 'revision', 'stamp', 'unpublished', 'removed', 'version')
            local current = standing[1] or '0'
            if current ~= ARGV[1] then return 0 end
            if ARGV[2] == 'nothing' then
              redis.call('DEL', KEYS[1])
              return 1
            end
            local time = redis.call('TIME')
            local now = time[1] * 1000000 + time[2]
            local last = tonumber(ARGV[4])
            if last > 0 and now >= (last + 1) * 1000 then
              return redis.error_reply('ERR its packaging began too long ago')
            end
            local fields = {'revision', string.format('%.0f', math.max(now, current + 1))}
            local isVersion = ARGV[2] == 'version' or ARGV[2] == 'unpackaged'
            if isVersion or ARGV[2] == 'removal' then
              local stamp = math.max(now, (tonumber(standing[2] or '') or 0) + 1)
              fields[3], fields[4] = 'stamp', string.format('%.0f', stamp)
            end
            local isTrace = standing[1] and (standing[4] or not standing[5]) and isVersion
            local reply = put(fields, 5, standing[3], isTrace, ARGV[2] == 'removal' and ARGV[3])
            if ARGV[2] == 'unpackaged' and reply == 1 then dropPackage(false) end
            if ARGV[2] == 'waiting' and reply == 1 then redis.call('EXPIRE', KEYS[1], ARGV[3]) end
            return reply
            """)

    /// The revision that follows another one: who read the order before finds that it was written since.
    static let revised = """
        local function revised(revision)
          local time = redis.call('TIME')
          return string.format('%.0f', math.max(time[1] * 1000000 + time[2], (tonumber(revision or '') or 0) + 1))
        end

        """

    /// Deletes the package of an order with the order's own documents, so that it is never served for a version that
    /// has none; the digest of its content too, unless that is to stay.
    static let dropPackage =
        Self.dropDocument + """
            local function dropPackage(keepsContent)
              for id in string.gmatch(redis.call('HGET', KEYS[1], 'own') or '', '%S+') do dropDocument(id) end
              redis.call('HDEL', KEYS[1], 'etag', 'head', 'assets', 'tail', 'signer', 'own')
              if not keepsContent then redis.call('HDEL', KEYS[1], 'content') end
            end

            """

    /// Writes the fields of an order so that Redis can refuse it when `maxmemory` is reached.
    ///
    /// Redis checks memory at the first write of a script only, and only if that write may need memory. So HSET comes
    /// first. If it is refused, an order that does not grow is written all the same: the fields are deleted first,
    /// which Redis always allows. A removal always frees memory, so it begins with DEL.
    /// Source: Redis 7.0 script.c, `scriptVerifyOOM`
    ///
    /// Arguments: names and values before those of ARGV; the index at which those begin; the present mark
    /// `unpublished`; true if there is something that expires; the seconds to keep a removal, false for any other.
    /// Returns 1, or the error of Redis.
    ///
    static let put = """
        local function makesRoom(reply, from)
          if not string.find(reply.err, 'OOM', 1, true) then return false end
          local names, growth = {}, 0
          for index = from, #ARGV, 2 do
            names[#names + 1] = ARGV[index]
            growth = growth + #ARGV[index + 1]
          end
          for _, value in ipairs(redis.call('HMGET', KEYS[1], unpack(names))) do
            if value then growth = growth - #value end
          end
          if growth > 0 then return false end
          redis.call('HDEL', KEYS[1], unpack(names))
          return true
        end
        local function put(fields, from, unpublished, isTrace, lifetime)
          for index = from, #ARGV do fields[#fields + 1] = ARGV[index] end
          if not lifetime then
            local reply = redis.pcall('HSET', KEYS[1], unpack(fields))
            if type(reply) == 'table' and reply.err then
              if not makesRoom(reply, from) then return reply end
            elseif not isTrace then
              return 1
            end
          end
          if lifetime or isTrace then redis.call('DEL', KEYS[1]) end
          if unpublished then redis.call('HSET', KEYS[1], 'unpublished', unpublished) end
          redis.call('HSET', KEYS[1], unpack(fields))
          if lifetime then
            redis.call('EXPIRE', KEYS[1], lifetime)
            redis.call('SET', KEYS[2], '', 'EX', \(OrderStore.goneSeconds))
          end
          return 1
        end

        """

    /// Reads fields of an order, with their size in place of large ones.
    ///
    /// KEYS: the order, its devices. ARGV: most bytes of a document, then the fields: the fourth is the document, the
    /// 13th the parts that it is made of, the 15th the changes that wait for it, which count with it. After their
    /// values the answer has 1 if a device is registered for the order, else 0.
    static let readOrder = RedisScript(
        """
        local values = redis.call('HMGET', KEYS[1], unpack(ARGV, 2))
        local size = #(values[4] or '') + #(values[13] or '') + #(values[15] or '')
        if size > tonumber(ARGV[1]) then values[4], values[13], values[15] = size, false, false end
        values[#ARGV] = redis.call('EXISTS', KEYS[2])
        return values
        """)

    /// Removes the mark of an order whose version is published, unless another one was set meanwhile, and notes that
    /// the record of a version is acknowledged, if that version is current.
    ///
    /// KEYS: the order. ARGV: as for `notePublished`, then the mark or nothing. Returns the current version; the mark
    /// stays unless that is the one.
    static let acknowledge = RedisScript(
        Self.isAsNew + Self.note + """
            local standing = redis.call('HMGET', KEYS[1], 'version', 'unpublished')
            if standing[1] == ARGV[1] and standing[2] and standing[2] == ARGV[4] then
              redis.call('HDEL', KEYS[1], 'unpublished')
            end
            return note()
            """)

    /// Notes that the record of a version is acknowledged, if that version is current, and returns the current version:
    /// that devices are told of it, and the place of its record, each by itself. Of two records of one version the
    /// later one counts. A record that was made before a request to announce the order again, `-…` in `told`, says
    /// nothing about that.
    ///
    /// A Redis that is full takes it after a deletion: without its place an order could not cool, which makes room.
    private static let note = """
        local function note()
          local standing = redis.call('HMGET', KEYS[1], 'version', 'told', 'record')
          if not standing[1] or standing[1] ~= ARGV[1] then return standing[1] end
          local fields = {}
          local isOther = string.match(standing[2] or '', '^-.') and standing[2] ~= ARGV[3]
          if ARGV[3] ~= '' and standing[2] ~= ARGV[1] and not isOther then fields = {'told', ARGV[1]} end
          if standing[3] ~= '' and not isAsNew(standing[3], ARGV[2]) then
            fields[#fields + 1], fields[#fields + 2] = 'record', ARGV[2]
          end
          if #fields == 0 then return standing[1] end
          local reply = redis.pcall('HSET', KEYS[1], unpack(fields))
          if type(reply) == 'table' and reply.err then
            redis.call('HDEL', KEYS[1], fields[1], fields[3] or fields[1])
            redis.call('HSET', KEYS[1], unpack(fields))
          end
          return standing[1]
        end

        """

    /// Ends the wait of changes that were applied when the order was created, once their dead letters are closed.
    ///
    /// KEYS: the order. ARGV: the changes. Returns 1 if they waited.
    static let endWaiting = RedisScript(
        """
        local standing = redis.call('HMGET', KEYS[1], 'waiting', 'version', 'removed')
        if standing[1] ~= ARGV[1] or not standing[2] or standing[3] then return 0 end
        return redis.call('HDEL', KEYS[1], 'waiting')
        """)

    /// Notes that the record of a version is acknowledged, if that version is current.
    ///
    /// KEYS: the order. ARGV: the version, its `PublishedRecord`, then empty if devices are not told of all that came
    /// before it, the text of `told` that it answers, or 1 for none. Returns the current version.
    static let notePublished = RedisScript(Self.isAsNew + Self.note + "return note()")
}
