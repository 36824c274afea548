/// The functions that programs have beside the library `waybill`: those of Lua without files, clocks, randomness
/// and addresses.
enum LuaBase {
    /// The beginning of the library's chunk. Its arguments are the functions of the host with `text`; null; and the
    /// metatable of decimals. It leaves the base in `base`; what follows has some of it, the functions of the host,
    /// `fail` and `protect`.
    static let text = #"""
        local host, null, decimal = ...
        local text_of = host.text
        local getmetatable, setmetatable, next, select = getmetatable, setmetatable, next, select
        local rawget, error, plain_type, plain_tostring = rawget, error, type, tostring
        local number_type, concat, sort, unpack = math.type, table.concat, table.sort, table.unpack
        local find, sub, gmatch, format, upper = string.find, string.sub, string.gmatch, string.format, string.upper

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

        local strings = chosen(string, "byte char len lower match rep reverse sub upper")

        -- Plainly, without patterns.
        function strings.find(text, part, from) return find(text, part, from, true) end

        function strings.replace(text, part, by, most)
            if part == "" then fail("replace: the part must not be empty") end
            local parts, from = {}, 1
            for _ = 1, most or math.maxinteger do
                local first, last = find(text, part, from, true)
                if not first then break end
                parts[#parts + 1] = sub(text, from, first - 1)
                from = last + 1
            end
            parts[#parts + 1] = sub(text, from)
            return concat(parts, by)
        end

        -- `%s` is as tostring.
        function strings.format(form, ...)
            local values, place = {...}, 0
            for kind in gmatch(form, "%%[-+ #0-9.]*(.?)") do
                if kind == "s" then values[place + 1] = base.tostring(values[place + 1]) end
                if kind == "" or not find("cdisxX%", kind, 1, true) then
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

        base.table = protect(chosen(table, "concat insert remove sort unpack"))
        base.math = protect(chosen(math,
            "abs ceil floor fmod huge max maxinteger min mininteger modf tointeger type ult"))
        base.utf8 = protect(chosen(utf8, "char codepoint len offset"))

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
