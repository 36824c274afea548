/// The functions that programs have beside the library `waybill`: those of Lua without files, clocks, randomness,
/// addresses, and work without bounds.
enum LuaBase {
    /// The beginning of the library's chunk. Its arguments are the functions of the host with `charge`, `find` and
    /// `text`; null; and the metatable of decimals. It leaves the base in `base`; what follows has some of it, the
    /// functions of the host, `fail` and `protect`.
    static let text = #"""
        local host, null, decimal = ...
        local charge, find, text_of = host.charge, host.find, host.text
        local getmetatable, setmetatable, next, select = getmetatable, setmetatable, next, select
        local rawget, rawlen, error, plain_type, plain_tostring = rawget, rawlen, error, type, tostring
        local number_type, concat, sort, unpack = math.type, table.concat, table.sort, table.unpack
        local sub, gsub, gmatch, match, format = string.sub, string.gsub, string.gmatch, string.match, string.format
        local upper = string.upper

        -- An error at the line of the program.
        local function fail(message) error(message, 0) end

        local function refuse() fail("libraries and tables of words cannot be changed") end

        -- Returns a table that has the members of another one, or those for which a function has a value.
        local function protect(members)
            return setmetatable({}, {__index = members, __newindex = refuse, __metatable = false})
        end

        local function chosen(from, names)
            local offered = {}
            for name in gmatch(names, "%g+") do offered[name] = from[name] end
            return offered
        end

        -- A function whose work grows with its first argument; `weight` in sixteenths of a step.
        local function charged(original, weight)
            return function(value, first, second, third)
                local kind = plain_type(value)
                if kind == "string" or kind == "table" then charge(rawlen(value) * weight // 16) end
                return original(value, first, second, third)
            end
        end

        local base = chosen(_G, "error ipairs rawequal rawlen select tonumber")
        base.null = null

        function base.type(value)
            if value == null then return "null" end
            local kind = plain_type(value)
            return kind == "userdata" and "number" or kind
        end

        -- Without addresses, which differ from run to run, and without the digits of a float.
        function base.tostring(value)
            local kind = base.type(value)
            if kind == "null" or kind == "table" or kind == "function" then return kind end
            if number_type(value) == "float" then fail("a number with a fraction has no exact text") end
            return plain_tostring(value)
        end

        function base.assert(...)
            local value, message = ...
            if value then return ... end
            fail(plain_type(message) == "string" and message or "assertion failed")
        end

        -- Integers by size, then texts by their bytes.
        local function precedes(left, right)
            local kind = plain_type(left)
            if kind == plain_type(right) then return left < right end
            return kind == "number"
        end

        -- `pairs` in the order of the keys: that of Lua depends on addresses and the time.
        function base.pairs(from)
            if plain_type(from) ~= "table" then
                fail("bad argument #1 to 'pairs' (table expected, got " .. base.type(from) .. ")")
            end
            local keys, count, texts = {}, 0, 0
            for key in next, from do
                if plain_type(key) == "string" then texts = texts + 1
                elseif number_type(key) ~= "integer" then
                    fail("pairs: the table has a key that is neither a text nor an integer")
                end
                count = count + 1
                keys[count] = key
            end
            charge(count * 4)
            sort(keys, texts > 0 and texts < count and precedes or nil)
            local place = 0
            return function()
                while place < count do
                    place = place + 1
                    local value = rawget(from, keys[place])
                    if value ~= nil then return keys[place], value end
                end
            end
        end

        local strings = chosen(string, "char len sub")
        for name in gmatch("byte lower upper reverse", "%g+") do strings[name] = charged(string[name], 16) end

        -- That of nothing would take its time for nothing.
        function strings.rep(text, count, between)
            if text == "" and (between or "") == "" then return text end
            return string.rep(text, count, between)
        end

        -- Plainly, without patterns.
        strings.find = find

        function strings.replace(text, part, by, most)
            if part == "" then fail("replace: the part must not be empty") end
            local parts, from = {}, 1
            for _ = 1, most or math.maxinteger do
                local first, last = find(text, part, from)
                if not first then break end
                parts[#parts + 1] = sub(text, from, first - 1)
                from = last + 1
            end
            parts[#parts + 1] = sub(text, from)
            return concat(parts, by)
        end

        function strings.match(text, pattern, from)
            if #text > 256 or #pattern > 256 then fail("match takes at most 256 bytes, and a pattern as long") end
            local plain = gsub(gsub(gsub(pattern, "%%b..", "*"), "%%.", "x"), "%[%^?.[^%]]*%]", "x")
            local _, repeats = gsub(plain, "[*+?-]", "")
            if repeats > 2 then fail("a pattern has at most two of * + - ? %b") end
            charge((#text + 1) * (repeats > 0 and #text or 1) * (repeats > 1 and #text or 1) // 16)
            return match(text, pattern, from)
        end

        -- `%s` is as tostring.
        function strings.format(form, ...)
            local values, place = {...}, 0
            for kind in gmatch(form, "%%[-+ #0-9.]*(.?)") do
                if kind == "s" then values[place + 1] = base.tostring(values[place + 1]) end
                if kind == "" or not find("cdisxX%", kind) then
                    fail("format takes only %c %d %i %s %x %X")
                end
                if kind ~= "%" then place = place + 1 end
            end
            return format(form, unpack(values, 1, select("#", ...)))
        end

        base.string = protect(strings)
        -- Without the metamethods by which texts take part in arithmetic and become floats.
        local texts = getmetatable("")
        for name in next, texts do texts[name] = nil end
        texts.__index = strings

        local tables = {concat = charged(concat, 16), sort = charged(sort, 512)}
        for name in gmatch("insert remove", "%g+") do
            local original = table[name]
            -- As many arguments as are given, since their number says what they are.
            tables[name] = function(value, ...)
                if plain_type(value) == "table" then charge(rawlen(value)) end
                return original(value, ...)
            end
        end

        function tables.unpack(list, from, to)
            from, to = from or 1, to or #list
            if from < 1 or to > from + 250 then fail("unpack takes at most 250 elements") end
            return unpack(list, from, to)
        end

        base.table = protect(tables)
        base.math = protect(chosen(math,
            "abs ceil floor fmod huge max maxinteger min mininteger modf tointeger type ult"))
        local characters = {char = utf8.char}
        for name in gmatch("len offset codepoint", "%g+") do characters[name] = charged(utf8[name], 16) end
        base.utf8 = protect(characters)

        local compare = host.compare
        decimal.__tostring = text_of
        function decimal.__eq(left, right) return compare(left, right) == 0 end
        function decimal.__lt(left, right) return compare(left, right) < 0 end
        function decimal.__le(left, right) return compare(left, right) <= 0 end

        function decimal.__concat(left, right)
            local function part(value)
                local kind = base.type(value)
                if kind == "string" or kind == "number" then return plain_tostring(value) end
                fail("attempt to concatenate a " .. kind .. " value")
            end
            return part(left) .. part(right)
        end

        local _ENV = chosen(base, "ipairs math pairs table tostring type")
        for name, call in next, host do _ENV[name] = call end
        """#
}
