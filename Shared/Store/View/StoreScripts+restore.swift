import Redis

/// The scripts that restore the view and record that it is complete.
///
/// A server's *history* is the identifier that Redis gives to a run of writes: it changes with a restart, with a
/// fail-over and when a replica takes over, and an old copy never has the one that it had as a copy. A judgement of one
/// history says nothing about another, so each value of an epoch and of a plan ends with its history.
/// Source: Redis INFO, master_replid; Redis replication, "Replication ID explained"
extension StoreScripts {
    static let history = """
        local function history()
          local info = redis.pcall('INFO', 'replication')
          return type(info) == 'string' and string.match(info, 'master_replid:(%w+)') or ''
        end
        local function isHere(value) return value and string.match(value, ':([^:]*)$') == history() end

        """

    /// Reads the whole state of the view.
    ///
    /// KEYS: epoch, plan, tails, startedEmpty.
    /// Returns the epoch, 1 if it is of this history, the plan if it is, the tails, the history, 1 if there was no
    /// order when the plan began.
    static let look = RedisScript(
        Self.history + """
            local epoch = redis.call('GET', KEYS[1])
            local plan = redis.call('GET', KEYS[2])
            return {
              epoch or '', isHere(epoch) and 1 or 0,
              isHere(plan) and string.match(plan, '^(.*):') or '', redis.call('HGETALL', KEYS[3]), history(),
              plan and plan == redis.call('GET', KEYS[4]) and 1 or 0
            }
            """)

    /// Marks the view as incomplete, and sets the plan under which it is restored.
    ///
    /// The keys distinguish an empty server from one that fell back: it has few, and no order among them. Nothing that
    /// is restored into it, the newest version of each order first, is older than the devices' versions.
    /// KEYS: epoch, plan, startedEmpty. ARGV: the plan to begin if there is none, the epoch that was seen, empty for
    /// none, the prefix of the keys of orders.
    /// Returns the active plan; nil if the view was completed meanwhile.
    static let beginRestore = RedisScript(
        Self.history + """
            local function hasOrders()
              local cursor = '0'
              for _ = 1, 5 do
                local page = redis.call('SCAN', cursor, 'COUNT', 1000)
                cursor = page[1]
                for _, key in ipairs(page[2]) do
                  if string.sub(key, 1, #ARGV[3]) == ARGV[3] then return true end
                end
                if cursor == '0' then return false end
              end
              return true
            end
            local epoch = redis.call('GET', KEYS[1])
            if epoch and epoch ~= ARGV[2] and isHere(epoch) then return false end
            local plan = redis.call('GET', KEYS[2])
            redis.call('DEL', KEYS[1])
            if isHere(plan) then return string.match(plan, '^(.*):') end
            local value = ARGV[1] .. ':' .. history()
            if hasOrders() then redis.call('DEL', KEYS[3]) else redis.call('SET', KEYS[3], value) end
            redis.call('SET', KEYS[2], value)
            return ARGV[1]
            """)

    /// Marks the view as complete, if its plan and history are unchanged since the restore began.
    ///
    /// KEYS: epoch, plan, tails, startedEmpty, marked. ARGV: plan, new epoch, then field, offset, … of the tails.
    /// Returns 1 if so, else 0.
    static let completeRestore = RedisScript(
        Self.history + """
            local here = history()
            if redis.call('GET', KEYS[2]) ~= ARGV[1] .. ':' .. here then return 0 end
            redis.call('DEL', KEYS[2], KEYS[3], KEYS[4], KEYS[5])
            for index = 3, #ARGV, 2 do redis.call('HSET', KEYS[3], ARGV[index], ARGV[index + 1]) end
            redis.call('SET', KEYS[1], ARGV[2] .. ':' .. here)
            return 1
            """)

    /// Gives a shard a new epoch after the judgement that a view of another history is still complete.
    ///
    /// KEYS: epoch. ARGV: the epoch and the history that were judged, the new epoch. Returns 1 if so, 0 if either has
    /// changed since.
    static let confirmView = RedisScript(
        Self.history + """
            if redis.call('GET', KEYS[1]) ~= ARGV[1] or history() ~= ARGV[2] then return 0 end
            -- First, so that a Redis that is full takes it.
            redis.call('DEL', KEYS[1])
            redis.call('SET', KEYS[1], ARGV[3] .. ':' .. ARGV[2])
            return 1
            """)

    /// Advances the tails, if the view is the one under which the offsets were taken.
    ///
    /// KEYS: epoch, tails. ARGV: epoch, then field, offset, … Returns 1 if so, else 0.
    static let keepTails = RedisScript(
        Self.history + """
            local epoch = redis.call('GET', KEYS[1])
            if epoch ~= ARGV[1] or not isHere(epoch) then return 0 end
            redis.call('DEL', KEYS[2])
            for index = 2, #ARGV, 2 do redis.call('HSET', KEYS[2], ARGV[index], ARGV[index + 1]) end
            return 1
            """)

    /// Restores an order, if the stored one is older, without a package: that is made when it is asked for.
    ///
    /// The revision is a time and not a count: a client that read the order before it was lost must not find the same
    /// number again. The stamp is above every tag that was issued for this version, also by a server whose clock was
    /// ahead of this one's.
    /// KEYS: as for `write`. ARGV: version, modification second, mode, seconds to keep a removed order, its
    /// `PublishedRecord` or nothing, a place that has no record of the order or nothing, then field, value, …;
    /// `content` last, if there is one.
    /// A stored order of the same version whose last record is elsewhere, as after a move to another Kafka cluster,
    /// gets its place; one that has neither document nor place is written.
    /// Returns 1 if written, 2 if the place was, 3 if the stored order is newer, 4 if the order was forgotten after
    /// this, 0 if it is the same; the stored place if it is another, later one; an error `OOM` when Redis is full and
    /// the order would grow.
    static let restoreOrder = RedisScript(
        Self.dropPackage + Self.put + Self.isAsNew + """
            local version, modified = tonumber(ARGV[1]), tonumber(ARGV[2])
            local gone = tonumber(redis.call('GET', KEYS[2]) or '')
            if gone and modified * 1000 <= gone then return 4 end
            local last, revision = 0, 0
            local unpublished, isTrace = false, false
            local kind = redis.call('TYPE', KEYS[1]).ok
            if kind == 'hash' then
              local standing = redis.call(
                'HMGET', KEYS[1], 'version', 'modified', 'stamp', 'revision', 'unpublished', 'removed', 'record')
              local standingVersion = tonumber(standing[1] or '') or 0
              if standingVersion > version then return 3 end
              local place = string.match(standing[7] or '', '^%d') and standing[7]
              local isWhole = place or redis.call('HEXISTS', KEYS[1], 'document') == 1
              if standingVersion == version and (tonumber(standing[2] or '') or 0) >= modified and isWhole then
                if not place or ARGV[5] == '' or place == ARGV[5] then return 0 end
                if isAsNew(place, ARGV[5]) and place ~= ARGV[6] then return place end
                redis.call('HSET', KEYS[1], 'record', ARGV[5])
                return 2
              end
              last, revision = tonumber(standing[3] or '') or 0, tonumber(standing[4] or '') or 0
              unpublished, isTrace = standing[5], standing[6] or not standing[1]
            elseif kind ~= 'none' then
              redis.call('DEL', KEYS[1])
            end
            local time = redis.call('TIME')
            local now = time[1] * 1000000 + time[2]
            local fields = {
              'revision', string.format('%.0f', math.max(now, revision + 1)),
              'stamp', string.format('%.0f', math.max(now, (modified + 1) * 1000000, last + 1)),
              'told', ARGV[1], 'record', ARGV[5]
            }
            local reply = put(fields, 7, unpublished, isTrace or ARGV[3] == 'cold', ARGV[3] == 'removal' and ARGV[4])
            if ARGV[3] == 'version' and reply == 1 then dropPackage(ARGV[#ARGV - 1] == 'content') end
            return reply
            """)

    /// Deletes an order for a removal of which only the time is known, and leaves a mark, so that an older record that
    /// is read later does not restore it.
    ///
    /// KEYS: as for `write`. ARGV: the removal's millisecond, seconds to keep the mark. Returns 1 if an order was
    /// deleted, else 0.
    static let forgetOrder = RedisScript(
        """
        if redis.call('TYPE', KEYS[1]).ok == 'hash' then
          local standing = redis.call('HMGET', KEYS[1], 'modified', 'removed')
          if standing[2] == '1' or (tonumber(standing[1] or '') or 0) * 1000 > tonumber(ARGV[1]) then return 0 end
        end
        local count = redis.call('DEL', KEYS[1])
        if (tonumber(redis.call('GET', KEYS[2]) or '') or 0) < tonumber(ARGV[1]) then
          redis.call('SET', KEYS[2], ARGV[1], 'EX', ARGV[2])
        end
        return count
        """)
}

// MARK: Jobs

/// The jobs of a restore are in one hash: `plan`, and per job `<from>:<to>:<done>:<lease ends>:<owner>`, with the owner
/// `done` for finished ones. Times are milliseconds of the server's clock.
extension StoreScripts {
    static let clock = """
        local time = redis.call('TIME')
        local now = time[1] * 1000 + math.floor(time[2] / 1000)

        """

    /// Adds the jobs of a plan, unless they exist already.
    ///
    /// KEYS: jobs. ARGV: plan, then job, value, … Returns 1 if added, else 0.
    static let noteJobs = RedisScript(
        """
        if redis.call('HGET', KEYS[1], 'plan') == ARGV[1] then return 0 end
        redis.call('DEL', KEYS[1])
        for index = 2, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[index], ARGV[index + 1]) end
        redis.call('HSET', KEYS[1], 'plan', ARGV[1])
        return 1
        """)

    /// Claims the job without an owner that has the least progress.
    ///
    /// KEYS: jobs. ARGV: plan, owner, milliseconds of the lease, the prefix of jobs that have to be done before any
    /// other begins.
    /// Returns job, from, to, done; or the number of open jobs, all assigned to others; -1 if there is another plan.
    static let claimJob = RedisScript(
        Self.clock + """
            if redis.call('HGET', KEYS[1], 'plan') ~= ARGV[1] then return -1 end
            local all = redis.call('HGETALL', KEYS[1])
            local open, least, found, isFirst = 0, nil, nil, false
            for index = 1, #all, 2 do
              local from, to, done, lease, owner = string.match(all[index + 1], '^(%d+):(%d+):(%d+):(%d+):(%w*)$')
              if from and owner ~= 'done' then
                open = open + 1
                local weight = tonumber(done)
                if not isFirst and string.sub(all[index], 1, #ARGV[4]) == ARGV[4] then
                  isFirst, least, found = true, nil, nil
                end
                local isTurn = not isFirst or string.sub(all[index], 1, #ARGV[4]) == ARGV[4]
                if isTurn and tonumber(lease) <= now and (not least or weight < least) then
                  least, found = weight, {all[index], from, to, done}
                end
              end
            end
            if not found then return open end
            redis.call('HSET', KEYS[1], found[1],
              string.format('%s:%s:%s:%.0f:%s', found[2], found[3], found[4], now + ARGV[3], ARGV[2]))
            return found
            """)

    /// Notes the progress of a job.
    ///
    /// KEYS: jobs. ARGV: plan, job, owner, done, to, milliseconds of the lease, owner from this call on, from.
    /// Returns 1, or 0 if another owner has the job by now.
    static let noteJob = RedisScript(
        Self.clock + """
            if redis.call('HGET', KEYS[1], 'plan') ~= ARGV[1] then return 0 end
            local owner = string.match(redis.call('HGET', KEYS[1], ARGV[2]) or '', '^%d+:%d+:%d+:%d+:(%w*)$')
            if owner ~= ARGV[3] then return 0 end
            redis.call('HSET', KEYS[1], ARGV[2],
              string.format('%s:%s:%s:%.0f:%s', ARGV[8], ARGV[5], ARGV[4], now + ARGV[6], ARGV[7]))
            return 1
            """)

    /// Forgets the jobs of a plan. KEYS: jobs. ARGV: plan.
    static let forgetJobs = RedisScript(
        """
        if redis.call('HGET', KEYS[1], 'plan') ~= ARGV[1] then return 0 end
        return redis.call('DEL', KEYS[1])
        """)
}
