import Redis

/// The marks in the slots of a cluster. Each script runs on one master and looks at all slots that it serves.
///
/// The mark of a slot whose keys are being moved may have moved already: then reading it fails with an error of Redis,
/// not as a missing key, and the slot is skipped.
/// Source: Redis cluster specification, "ASK redirection"; Redis 7.0 script.c, `scriptVerifyClusterState`
extension StoreScripts {
    /// `slots(slot)`: the ranges of the master that serves this slot, and their text.
    /// `marks(own, tags)`: the distinct marks as text, and the number of slots that have none.
    private static let slots =
        Self.history + Self.clock + """
            local function slots(slot)
              local all, own, texts, name = redis.pcall('CLUSTER', 'SLOTS'), {}, {}, nil
              if all.err then return own, '' end
              for _, range in ipairs(all) do
                if range[1] <= slot and slot <= range[2] then name = range[3][3] end
              end
              for _, range in ipairs(all) do
                if name and range[3][3] == name then own[#own + 1] = range end
              end
              table.sort(own, function(left, right) return left[1] < right[1] end)
              for index, range in ipairs(own) do texts[index] = range[1] .. '-' .. range[2] end
              return own, table.concat(texts, ',')
            end
            local function key(tags, slot)
              return '\(StoreKeys.slotMark)' .. string.sub(tags, slot * 3 + 1, slot * 3 + 3) .. '}'
            end
            local function marks(own, tags)
              local found, names, unmarked = {}, {}, 0
              for _, range in ipairs(own) do
                for slot = range[1], range[2] do
                  local mark = redis.pcall('GET', key(tags, slot))
                  if not mark then
                    unmarked = unmarked + 1
                  elseif type(mark) == 'string' and not found[mark] then
                    found[mark] = true
                    names[#names + 1] = mark
                  end
                end
              end
              table.sort(names)
              return table.concat(names, ','), unmarked
            end
            local function mark(own, tags, text)
              for _, range in ipairs(own) do
                for slot = range[1], range[2] do redis.pcall('SET', key(tags, slot), text) end
              end
            end
            local function marked(text, here) return string.format('%.0f:%s:%s', now, redis.sha1hex(text), here) end

            """

    /// Reads the marks of a master.
    ///
    /// KEYS: epoch, marked. ARGV: the tags of all slots, the slot of the keys.
    /// Returns the slots, the history, the distinct marks, the number of slots without one, 1 if the server never took
    /// over from another one, seconds since its start, milliseconds since it was marked, -1 if it was not.
    static let lookAtSlots = RedisScript(
        Self.slots + """
            local own, text = slots(tonumber(ARGV[2]))
            local names, unmarked = marks(own, ARGV[1])
            local info = redis.pcall('INFO', 'replication')
            local isFirst = type(info) == 'string' and string.find(info, 'master_replid2:0+%s') and 1 or 0
            info = redis.pcall('INFO', 'server')
            local uptime = type(info) == 'string' and string.match(info, 'uptime_in_seconds:(%d+)') or 0
            local seen = redis.call('GET', KEYS[2])
            local age = isHere(seen) and now - string.match(seen, '^%d+') or -1
            return {text, history(), names, unmarked, isFirst, tonumber(uptime), age}
            """)

    /// Declares a shard complete, if its slots and their marks are still the ones that were judged.
    ///
    /// KEYS: epoch, tails, marked. ARGV: the tags of all slots, the slot of the keys, slots, history, and marks as
    /// judged, the epoch as judged, the new epoch, then field, offset, … of the tails. Returns 1 if so, else 0.
    static let confirmMovedSlots = RedisScript(
        Self.slots + """
            local own, text = slots(tonumber(ARGV[2]))
            local here = history()
            if text ~= ARGV[3] or here ~= ARGV[4] or (redis.call('GET', KEYS[1]) or '') ~= ARGV[6] then return 0 end
            local names, unmarked = marks(own, ARGV[1])
            if names ~= ARGV[5] or unmarked > 0 then return 0 end
            -- First, so that a Redis that is full takes it.
            redis.call('DEL', KEYS[1], KEYS[2])
            mark(own, ARGV[1], here)
            for index = 8, #ARGV, 2 do redis.call('HSET', KEYS[2], ARGV[index], ARGV[index + 1]) end
            redis.call('SET', KEYS[3], marked(text, here))
            redis.call('SET', KEYS[1], ARGV[7] .. ':' .. here)
            return 1
            """)

    /// Marks the slots of a master that is complete, as all others are. If it was marked before, each slot that it got
    /// since must have a mark, which proves that its keys came along; else the shard counts as incomplete.
    ///
    /// KEYS: epoch, marked. ARGV: the epoch as seen, the slot of the keys, the tags of all slots, or nothing to do only
    /// what needs none. Returns 0 if nothing is left to do, 1 if the tags are needed, 2 if keys of slots are lost.
    static let markSlots = RedisScript(
        Self.slots + """
            if redis.call('GET', KEYS[1]) ~= ARGV[1] or not isHere(ARGV[1]) then return 0 end
            local here, seen = history(), redis.call('GET', KEYS[2])
            if not isHere(seen) then seen = nil end
            if seen and now - string.match(seen, '^%d+') < 1000 then return 0 end
            local own, text = slots(tonumber(ARGV[2]))
            if text == '' then return 0 end
            local isMarked = seen and string.match(seen, ':(%w+):') == redis.sha1hex(text)
            if not isMarked and ARGV[3] == '' then return 1 end
            if seen and not isMarked then
              local _, unmarked = marks(own, ARGV[3])
              if unmarked > 0 then
                redis.call('DEL', KEYS[1], KEYS[2])
                return 2
              end
            end
            -- First, so that a Redis that is full takes it.
            redis.call('DEL', KEYS[2])
            if not isMarked then mark(own, ARGV[3], here) end
            redis.call('SET', KEYS[2], marked(text, here))
            return 0
            """)
}
