import Redis

/// The two sides of a registration are in different slots: with the order a hash device -> record, with the device a
/// set of orders. They hold the registrations. Each has a hash of stamps, member -> `RegistrationStamp`, and a hash of
/// the ends, kept for an hour. A member without a stamp is older than any new one; a stamp without its member means
/// nothing. The ends have digests of the members, since they outlive what was removed; earlier releases wrote the
/// members themselves.
///
/// KEYS of all but `admit` and `retire`: hash or set, stamps, ends. ARGV: member, offset, moment, origin, …
extension StoreScripts {
    /// Adds a device to its order, or updates its record with a newer one, unless the order is removed. One that is not
    /// there is not removed: a view that is being restored may lack it.
    ///
    /// KEYS: …, the order, the long-lived trace of a removed one. ARGV: …, record.
    /// Returns 1 if the device was registered already, 2 if it is the order's first one, else 0; -1 if the order is
    /// removed.
    static let registerDevice = RedisScript(Self.isNewer + Self.deviceHash + Self.isRemoved + Self.register)

    /// Adds an order to its device. Its stamp has the microsecond of the server's clock when that first happened.
    ///
    /// Returns 1 if the order was in the set already, 2 if it is the device's first one, else 0.
    static let registerOrder = RedisScript(Self.isNewer + Self.orderSet + Self.register)

    /// Removes a device from its order and remembers that, unless there is something newer.
    ///
    /// ARGV: …, seconds to remember it, 0 for not at all.
    /// Returns 1 if the device is not registered, 2 if it was until now and the order has none any more, 0 if it stays.
    static let unregisterDevice = RedisScript(Self.isNewer + Self.deviceHash + Self.unregister)

    /// Removes an order from its device; otherwise like `unregisterDevice`.
    static let unregisterOrder = RedisScript(Self.isNewer + Self.orderSet + Self.unregister)

    /// Decides if a device may be registered, or its registration may end.
    ///
    /// A standing record also has `recorded`, the moment when a record of it was last admitted to Kafka, if that is not
    /// the moment of registration; 0 once its end was admitted. A record that is written anew has none.
    ///
    /// KEYS: hash of devices, debt. ARGV: device, most devices, milliseconds that earn a new one, push token or empty
    /// for an end, moment, milliseconds of an hour. Returns 0 if so, -1 if there are too many, -2 if the registration
    /// stands and needs no record, or the milliseconds until the next is admitted.
    static let admit = RedisScript(
        """
        local standing = redis.call('HGET', KEYS[1], ARGV[1])
        local limit, interval = tonumber(ARGV[2]), tonumber(ARGV[3])
        if standing then
          local isRead, record = pcall(cjson.decode, standing)
          if not isRead or type(record) ~= 'table' then record = {} end
          local token, registered = record.pushToken, tonumber(record.registered)
          local recorded = tonumber(record.recorded) or registered
          if type(token) == 'string' and registered and (ARGV[4] == '' or recorded ~= 0 and ARGV[4] == token) then
            local moment, reply = tonumber(ARGV[5]), 0
            if ARGV[4] == '' then
              recorded = 0
            elseif math.abs(moment - recorded) < tonumber(ARGV[6]) then
              reply, registered = -2, math.max(registered, moment)
            else
              recorded = moment
            end
            redis.call('HSET', KEYS[1], ARGV[1], string.format(
              '{"format":1,"pushToken":%s,"recorded":%.0f,"registered":%.0f}',
              cjson.encode(token), recorded, registered))
            return reply
          end
        elseif ARGV[4] ~= '' and redis.call('HLEN', KEYS[1]) >= limit then
          return -1
        end
        local time = redis.call('TIME')
        local now = time[1] * 1000 + math.floor(time[2] / 1000)
        local most = limit * interval
        local clear = tonumber(redis.call('GET', KEYS[2]) or '') or 0
        local debt = math.min(math.max(clear - now, 0), most) + interval
        if debt > most then return debt - most end
        redis.call('SET', KEYS[2], string.format('%.0f', now + debt), 'PX', string.format('%.0f', debt))
        return 0
        """)

    /// Removes a device from its order if its record is still the one that was read. Records are compared by content:
    /// one that others wrote may be encoded differently.
    ///
    /// KEYS: hash, stamps. ARGV: device, push token, moment of registration. Returns the stamp if it was removed, empty
    /// if there was none, and 1 if the order has other devices, else 0; nil if the device stays.
    static let retire = RedisScript(
        """
        local standing = redis.call('HGET', KEYS[1], ARGV[1])
        if not standing then return false end
        local isRead, record = pcall(cjson.decode, standing)
        if not isRead or type(record) ~= 'table' or record.pushToken ~= ARGV[2]
          or tonumber(record.registered) ~= tonumber(ARGV[3]) then return false end
        local stamp = redis.call('HGET', KEYS[2], ARGV[1])
        redis.call('HDEL', KEYS[1], ARGV[1])
        redis.call('HDEL', KEYS[2], ARGV[1])
        return {stamp or '', redis.call('EXISTS', KEYS[1])}
        """)

    /// True if a stamp is newer than the one in the request, by the rule of `RegistrationStamp`.
    private static let isNewer = """
        local function isNewer(standing)
          local offset, moment, rest = string.match(standing or '', '^(-?%d+):(%d+)(.*)$')
          if not offset then return false end
          offset, moment = tonumber(offset), tonumber(moment)
          local ownOffset, ownMoment = tonumber(ARGV[2]), tonumber(ARGV[3])
          local origin = string.match(rest, '^:%d*:(%x+)$')
          if offset < 0 or ownOffset < 0 or origin and ARGV[4] ~= '' and origin ~= ARGV[4]
            or math.abs(moment - ownMoment) > \(RegistrationStamp.raceMilliseconds) then
            return moment > ownMoment
          end
          return offset > ownOffset
        end
        local mark = redis.sha1hex(ARGV[1])
        local function ended()
          local stamps = redis.call('HMGET', KEYS[3], mark, ARGV[1])
          return stamps[1] or stamps[2]
        end
        local function stamp(since)
          local text = ARGV[2] .. ':' .. ARGV[3]
          if ARGV[4] ~= '' then return text .. ':' .. since .. ':' .. ARGV[4] end
          return since == '' and text or text .. ':' .. since
        end

        """

    /// The order's side; `put` returns the microsecond of the registration, empty where it is not noted.
    private static let deviceHash = """
        local function stands() return redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 end
        local function take() return redis.call('HDEL', KEYS[1], ARGV[1]) end
        local function put()
          redis.call('HSET', KEYS[1], ARGV[1], ARGV[5])
          return ''
        end

        """

    /// The device's side. A member whose time of registration is unknown counts as
    /// new: the device gets one order too many in its list, not one too few.
    private static let orderSet = """
        local function stands() return redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 1 end
        local function take() return redis.call('SREM', KEYS[1], ARGV[1]) end
        local function put(standing)
          redis.call('SADD', KEYS[1], ARGV[1])
          local since = string.match(standing or '', '^-?%d+:%d+:(%d+)')
          if since then return since end
          local time = redis.call('TIME')
          return string.format('%.0f', time[1] * 1000000 + time[2])
        end

        """

    /// Damaged data under the key of the order keeps no device from its registration.
    private static let isRemoved = """
        local order = redis.pcall('HMGET', KEYS[4], 'version', 'removed')
        if order.err then order = {true} end
        if order[2] == '1' or not order[1] and redis.call('EXISTS', KEYS[5]) == 1 then return -1 end

        """

    private static let register = """
        local existed = stands()
        local standing = existed and redis.call('HGET', KEYS[2], ARGV[1])
        local reply = existed and 1 or 0
        if isNewer(standing) or isNewer(ended()) then return reply end
        if redis.call('EXISTS', KEYS[1]) == 0 then reply = 2 end
        redis.call('HSET', KEYS[2], ARGV[1], stamp(put(standing)))
        redis.call('HDEL', KEYS[3], mark, ARGV[1])
        return reply
        """

    /// The number of ends of one order, or one device, that are remembered. With one more, the older half is forgotten:
    /// only a request that takes longer than hundreds of others would need it.
    static let endedLimit = 1000

    private static let unregister = """
        if redis.call('HLEN', KEYS[3]) >= \(Self.endedLimit) then
          local all, moments = redis.call('HGETALL', KEYS[3]), {}
          local function moment(text) return tonumber(string.match(text, '^-?%d+:(%d+)') or '') or 0 end
          for index = 2, #all, 2 do moments[#moments + 1] = moment(all[index]) end
          table.sort(moments)
          local middle = moments[math.ceil(#moments / 2)]
          for index = 2, #all, 2 do
            if moment(all[index]) <= middle then redis.call('HDEL', KEYS[3], all[index - 1]) end
          end
        end
        if stands() and isNewer(redis.call('HGET', KEYS[2], ARGV[1])) then return 0 end
        local reply = take() == 1 and redis.call('EXISTS', KEYS[1]) == 0 and 2 or 1
        redis.call('HDEL', KEYS[2], ARGV[1])
        if ARGV[5] == '0' or isNewer(ended()) then return reply end
        redis.call('HSET', KEYS[3], mark, stamp(''))
        redis.call('EXPIRE', KEYS[3], ARGV[5])
        return reply
        """
}
